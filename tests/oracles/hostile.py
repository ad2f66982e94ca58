"""Hostile arguments for the published bounds, the leakage measures, the order and calibration.

`cases` makes calls of every public function of these modules in which one argument, or two, is
something nobody would pass on purpose; `check` makes the call and says what is wrong with how it
ended. Allowed are

* an answer without NaN, with probabilities in [0, 1] and brackets in order, without a warning (but
  for the package's own kinds). A NumPy number gives what the Python number of that value gives;
* a `ValueError` or a `TypeError` of one line that names an argument; a `TypeError` names one that
  was replaced;

within two seconds of processor time.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import re
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np

import shuffle_accountant as sa
from shuffle_accountant.bracket import Attained, Bracket
from shuffle_accountant.leakage import mutual_information, qif, reidentification
from shuffle_accountant.order import experiments
from shuffle_accountant.reports import comparison

__all__ = ["ENTRIES", "EXEMPT", "Case", "Entry", "cases", "check", "public_callables"]

SECONDS = 2.0
"""Processor time that a call may take, unless it gives many answers."""

_LISTED = (
    "partition_vulnerability_shuffle",
    "posterior_vulnerability_local_shuffle",
    "reduced_krr_channel",
    "reduced_local_channel",
)
_GIVE_UP = 60.0  # seconds of the processor after which a call is interrupted

# ---------------------------------------- hostile values

_INTEGERS: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 4, 5, 7, 10, 62, 63, 64, 65, 100, 255, 256, 1000, 10**6, 2**31 - 1, 2**31),
    *(2**53 - 1, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**12, 10**18, -(10**18)),
    *(10**400, -(10**400), 10**5000),
)
_NUMPY_INTEGERS: tuple[Any, ...] = (
    *(kind(3) for kind in (np.int8, np.int16, np.int32, np.int64)),
    *(kind(5) for kind in (np.uint8, np.uint16, np.uint32, np.uint64)),
    *(np.int8(-1), np.int8(127), np.uint8(255), np.uint8(200), np.int16(-(2**15))),
    *(np.int16(2**15 - 1), np.uint16(2**16 - 1), np.int32(2**31 - 1), np.uint32(2**32 - 1)),
    *(np.int64(2**63 - 1), np.int64(-(2**63)), np.uint64(2**64 - 1), np.uint64(2**53)),
)
_FLOATS: tuple[Any, ...] = (
    *(0.0, -0.0, 5e-324, 1e-310, 2.2250738585072014e-308, 1e-300, 1e-160, 1e-100, 1e-30, 1e-16),
    *(2.0**-53, 1e-9, 1e-3, 0.1, 0.25, 0.3, 0.5, 0.75, 1.0 - 2.0**-53, 1.0, 1.0 + 2.0**-52, 1.5),
    *(2.5, 10.0, 36.0, 149.0, 150.0, 151.0, 699.0, 700.0, 709.0, 709.8, 710.0, 745.0, 746.0, 1e3),
    *(1e6, 2.0**53, 1e16, 1e100, 1e154, 1e155, 1e200, 1e300, 1e308, 1.7976931348623157e308),
    *(-1.0, -1e-300, -5e-324, -1e308, math.inf, -math.inf, math.nan),
)
_NUMPY_FLOATS: tuple[Any, ...] = (
    *(np.float16(0.5), np.float16(6e-8), np.float16(math.inf), np.float16(math.nan)),
    *(np.float32(0.3), np.float32(1e-45), np.float32(3e38), np.float32(math.nan)),
    *(np.float64(0.5), np.float64(5e-324), np.float64(1e308), np.float64(-math.inf)),
    *(np.longdouble(0.5), np.longdouble("1e4000"), np.longdouble("1e-4000")),
    np.longdouble("0.99999999999999999999"),
)
_OTHER_NUMBERS: tuple[Any, ...] = (
    *(Fraction(1, 3), Fraction(7), Fraction(10**400), Fraction(1, 10**400), Fraction(-1, 7)),
    *(Fraction(10**400 - 1, 10**400), Decimal("0.5"), Decimal(3), Decimal("1e400")),
    *(Decimal("1e-400"), Decimal("1e-999999"), Decimal("1e999999"), Decimal("NaN")),
    *(Decimal("sNaN"), Decimal("-Infinity")),
)
_NOT_NUMBERS: tuple[Any, ...] = (
    *(True, False, np.True_, np.False_, None, "", "3", "kendall", "nan\nnan", b"3", 1j, ...),
    *([], [1.0], (1,), {}, {1}, range(3), object(), int, len, np.array(3), np.array(0.5)),
    *(np.array([1, 2]), np.array([]), np.complex64(1), np.datetime64("2020-01-01"), np.str_("3")),
)
_ARRAYS: tuple[Any, ...] = (
    *([], [[]], [1.0], [[1.0]], [0.5, 0.5], [0.5, 0.5, 0.0], [1.0, 0.0], [0.0, 1.0]),
    *([5e-324, 1.0], [1.0, 5e-324], [1e-310, 0.5, 0.5], [1e-300, 1.0 - 1e-16], [1e308, 1e308]),
    *([math.nan, 1.0], [math.inf, 0.0], [-math.inf, 1.0], [-1.0, 2.0], [0.5, 0.6], [0.0, 0.0]),
    *([1.0, [0.5, 0.5]], [[0.5, 0.5], [1.0]], [["a"]], ["0.5", "0.5"], [None, 1.0]),
    *([Fraction(1, 2), Fraction(1, 2)], [Decimal("0.5"), Decimal("0.5")], [True, False]),
    *([10**400, 1], [2**63, 2**63], [2**64, 0], [1j, 0], [-1, 2], [0, 0, 0], [0, 1, 2]),
    *(np.array([0.5, 0.5], np.float16), np.array([0.5, 0.5], np.float32)),
    *(np.array([0.3, 0.7], np.float32), np.array([0.5, 0.5], np.longdouble)),
    *(np.array([1e-4000, 1.0], np.longdouble), np.array([3, 200], np.uint8)),
    *(np.array([2, 0, 1], np.uint8), np.array([2, 0, 1], np.int8), np.array([1, 0], np.uint64)),
    *(np.array([True, False]), np.zeros((2, 2)), np.eye(2), np.eye(3), np.ones((2, 2, 2))),
    *(np.full((2, 2), math.nan), np.array([[0.5, 0.5], [5e-324, 1.0]])),
    *(np.array([[1.0, 0.0], [1e-310, 1.0]]), np.array("x"), np.array([object()])),
    *(np.ma.masked_array([0.5, 0.5], [True, False]), np.zeros(2, "m8[s]"), [[0, 1], [1, 0]]),
    *([[1e308, 1e308]], [[1e308], [-1e308], [0.0]], [1e308, -1e308, 0.0], [[1, 10**400]]),
)
_PLAIN = (*_INTEGERS, *_FLOATS)
_SCALARS = (*_PLAIN, *_NUMPY_INTEGERS, *_NUMPY_FLOATS, *_OTHER_NUMBERS)


def _hostile(rng: np.random.Generator, base: Any) -> Any:
    """Something in place of a usual value: of its kind more often than not."""
    array = isinstance(base, list | tuple | np.ndarray)
    fate = rng.random()
    if fate < 0.55 and array:
        return _ARRAYS[rng.integers(len(_ARRAYS))]
    if fate < 0.2:
        return float(np.exp(rng.uniform(-745.0, 709.0)))
    if fate < 0.3:
        return int(2.0 ** rng.uniform(0.0, 70.0))
    if fate < 0.35:
        return int(2.0 ** rng.uniform(0.0, 12.0))
    if fate < 0.4:
        return float(rng.random() ** rng.integers(1, 20))
    pool = _SCALARS if fate < 0.9 else (*_NOT_NUMBERS, *_ARRAYS)
    return pool[rng.integers(len(pool))]


# ---------------------------------------- what is called


@dataclass(frozen=True)
class Entry:
    """A public function with usual arguments.

    Attributes:
        name: how the facades name it.
        call: the function.
        bases: usual arguments, one set of them or more, all by keyword.
        probability: whether every number of the answer is a probability.
        work: for arguments that say how much work is asked for, the least and the largest value
            that are tried, and the largest one that is allowed: what is beyond is tried again.
        owner: what an error may be about besides the arguments.
        seconds: processor time that a call may take.
    """

    name: str
    call: Callable[..., Any]
    bases: tuple[Mapping[str, Any], ...]
    probability: bool = False
    work: Mapping[str, tuple[float, float, float]] = dataclasses.field(default_factory=dict)
    owner: tuple[str, ...] = ()
    seconds: float = SECONDS


def _baselines() -> Iterator[Entry]:
    b = sa.baselines
    clones = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=100)
    sampled = sa.ShuffleRound(sa.GeneralRandomizer(eps0=0.5), users=50, population=80)
    one = (
        {"eps0": 0.5, "users": 10**4, "delta": 1e-6},
        {"eps0": 1.0, "users": 10**6, "delta": 1e-9},
    )
    for module in (b.clones_closed_form, b.strong_clones_closed_form):
        yield Entry(f"{module.name}.epsilon", module.epsilon, one)
        yield Entry(f"{module.name}.valid", module.valid, one)
    small = ({"eps0": 0.3, "users": 10**4, "delta": 1e-6},)
    yield Entry("erlingsson.epsilon", b.erlingsson.epsilon, small)
    yield Entry("erlingsson.valid", b.erlingsson.valid, small)
    for module in (b.blanket_hoeffding, b.blanket_bennett):
        both = tuple(base | more for base in one for more in ({}, {"categories": 4}))
        curve = tuple(_without(base, "delta") | {"epsilon": 0.3} for base in both)
        yield Entry(f"{module.name}.epsilon", module.epsilon, both)
        yield Entry(f"{module.name}.valid", module.valid, both)
        yield Entry(f"{module.name}.delta", module.delta, curve, True)
    girgis = (
        {
            "eps0": 0.5,
            "users": 100,
            "population": 200,
            "rounds": 3,
            "delta": 1e-3,
            "upsilon_factor": 1.0,
        },
        {"eps0": 2.0, "users": 1000, "rounds": 10, "delta": 1e-6},
    )
    yield Entry("girgis.epsilon", b.girgis.epsilon, girgis)
    yield Entry("girgis.valid", b.girgis.valid, girgis)
    orders = {"eps0": 0.5, "users": 100, "population": 200, "order": 5, "upsilon_factor": 0.5}
    yield Entry("girgis.renyi_divergence", b.girgis.renyi_divergence, (orders,))
    spent = (
        {"eps1": 0.1, "delta1": 1e-7, "rounds": 20, "delta": 1e-5},
        {"eps1": 0.01, "delta1": 0.0, "rounds": 10**4, "delta": 1e-9},
    )
    rest = tuple(_without(base, "delta") | {"epsilon": 0.7} for base in spent)
    yield Entry("strong_composition.epsilon", b.strong_composition.epsilon, spent)
    yield Entry("strong_composition.valid", b.strong_composition.valid, spent)
    yield Entry("strong_composition.delta", b.strong_composition.delta, rest, True)
    split = {"curve": lambda delta: 0.1 * math.log(1.0 / delta), "rounds": 20, "delta": 1e-5}
    # as many terms as rounds
    yield Entry(
        "strong_composition.split_epsilon",
        b.strong_composition.split_epsilon,
        (split,),
        seconds=20.0,
    )
    krr = {"eps0": 1.0, "categories": 4, "users": 1000}
    k = b.specialised_clones
    yield Entry("specialised_clones.epsilon", k.epsilon, (krr | {"delta": 1e-6},))
    yield Entry("specialised_clones.valid", k.valid, (krr | {"delta": 1e-6},))
    yield Entry("specialised_clones.delta", k.delta, (krr | {"epsilon": 0.2},), True)
    several = tuple(
        {"round": round, "rounds": count}
        for round, count in ((clones, 2), (sampled, 10), ([(clones, 1), (sampled, 2)], 3))
    )
    to_delta = tuple(base | {"epsilon": 0.5} for base in several)
    to_epsilon = tuple(base | {"delta": 1e-5} for base in several)
    inner = ("count",)  # of the pairs in `round`
    yield Entry("rdp.valid", b.rdp.valid, to_epsilon, owner=inner)
    yield Entry("rdp.delta", b.rdp.delta, to_delta, True, owner=inner)
    yield Entry("rdp.delta_as_published", b.rdp.delta_as_published, to_delta, True, owner=inner)
    yield Entry("rdp.epsilon", b.rdp.epsilon, to_epsilon, owner=inner)
    yield Entry("rdp.epsilon_as_published", b.rdp.epsilon_as_published, to_epsilon, owner=inner)
    yield Entry("rdp.renyi_divergence", b.rdp.renyi_divergence, ({"round": clones, "order": 4.5},))
    epoch = sa.RandomAllocation(sa.PureMechanism(epsilon=0.5), steps=5000)
    epochs = ({"round": epoch, "rounds": 2, "delta": 1e-6},)
    yield Entry("allocation_poisson.rate", b.allocation_poisson.rate, epochs)
    yield Entry("allocation_poisson.valid", b.allocation_poisson.valid, epochs)
    bins = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=2.0), steps=5000)
    bound = b.allocation_berry_esseen
    whole = ({"round": bins, "rounds": 2},)
    yield Entry("allocation_berry_esseen.total_variation", bound.total_variation, whole)
    yield Entry("allocation_decomposition.valid", b.allocation_decomposition.valid, epochs)
    grid = {"round": sampled, "points": 40, "reach": 0.25}
    work = {"points": _up_to(1000)}
    yield Entry("alpha_grid.delta", b.alpha_grid.delta, (grid | {"epsilon": 0.1},), True, work)
    yield Entry("alpha_grid.pair", b.alpha_grid.pair, (grid,), False, work)


def _qif() -> Iterator[Entry]:
    counts = (
        {"users": 5, "categories": 3},
        {"users": 20, "categories": 2},
        {"users": 2, "categories": 9},
    )
    keeps = tuple(base | {"p": 0.7} for base in counts)
    lies = tuple(base | {"p": 0.05} for base in counts)
    many = (*counts, {"users": 10**6, "categories": 100})
    binary = [[0.75, 0.25], [0.25, 0.75]]
    laws = ({"theta": [0.2, 0.3, 0.5], "users": 10}, {"theta": [0.5, 0.5], "users": 1000})
    channel = (
        {"channel": binary, "users": 3},
        {"channel": [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]], "users": 2},
    )
    one = ({"users": 10, "p": 0.7, "known": 4}, {"users": 10**5, "p": 0.6, "known": 7})
    tables: dict[str, tuple[tuple[dict[str, Any], ...], bool]] = {
        "all_but_one_vulnerability": (one, True),
        "all_but_one_vulnerability_of": (
            (
                {"channel": binary, "known": [2, 1], "prior": [0.3, 0.7]},
                {"channel": binary, "known": [3, 0]},
            ),
            True,
        ),
        "asymptotic_all_but_one_vulnerability": (({"users": 100, "p": 0.7},), False),
        "asymptotic_vulnerability_shuffle": (many, False),
        "brown_number": (counts, False),
        "datasets": (({"users": 5, "categories": 3}, {"users": 2, "categories": 9}), False),
        "expected_maximum_load": (many, False),
        "expected_maximum_load_of": (laws, False),
        "expected_minimum_load": (many, False),
        "expected_minimum_load_of": (laws, False),
        "identity_gain": (({"secrets": 4},), True),
        "keep_probability": (({"eps0": 1.0, "categories": 4},), True),
        "krr": (({"categories": 4, "p": 0.7},), True),
        "krr_channel": (({"users": 2, "categories": 3, "p": 0.7},), True),
        "leading_factor": (({"categories": 4},), False),
        "local_channel": (channel, True),
        "partition_vulnerability_shuffle": (counts, True),
        "partitions": (({"total": 7, "parts": 3},), False),
        "posterior_vulnerability_krr": (({"categories": 4, "p": 0.7},), True),
        "posterior_vulnerability_krr_shuffle": (keeps, True),
        "posterior_vulnerability_krr_shuffle_low": (lies, True),
        "posterior_vulnerability_local_shuffle": (
            tuple(base | {"prior": [0.4, 0.6]} for base in channel),
            True,
        ),
        "posterior_vulnerability_shuffle": (many, True),
        "posterior_vulnerability_shuffle_of": (laws, True),
        "printed_vulnerability_krr_shuffle": (
            ({"users": 100, "categories": 4, "p": 0.5, "factor": 0.8},),
            False,
        ),
        "printed_vulnerability_shuffle": (({"users": 100, "categories": 4, "factor": 0.8},), False),
        "reduced_krr_channel": (({"users": 3, "categories": 3, "p": 0.7},), True),
        "reduced_local_channel": (channel, True),
        "reduced_shuffle_channel": (({"users": 3, "categories": 2},), True),
        "remixed_keys_number": (counts, False),
        "shuffle_channel": (({"users": 3, "categories": 2},), True),
        "single_target_gain": (({"users": 3, "categories": 2, "target": 1},), True),
    }
    for name, (bases, probability) in tables.items():
        # thousands of datasets are listed, and integers of thousands of digits are exact
        seconds = 20.0 if name in _LISTED else SECONDS
        yield Entry(f"qif.{name}", getattr(qif, name), bases, probability, seconds=seconds)
    yield Entry("qif.Channel", qif.Channel, ({"matrix": binary, "inputs": "ab", "outputs": "xy"},))
    c, d = qif.Channel(binary), qif.Channel([[0.6, 0.4], [0.4, 0.6]])
    gains = {"prior": [0.4, 0.6], "gain": [[1.0, 0.0], [0.0, 2.0]]}
    for name in (
        "prior_vulnerability",
        "posterior_vulnerability",
        "additive_leakage",
        "multiplicative_leakage",
    ):
        yield Entry(f"qif.Channel.{name}", getattr(c, name), (gains,))
    least = ({"prior": [0.4, 0.6]},)
    yield Entry("qif.Channel.min_entropy_leakage", c.min_entropy_leakage, least)
    yield Entry("qif.Channel.probability", c.probability, ({"output": 1, "given": 0},))
    yield Entry("qif.Channel.canonical", c.canonical, ({"tolerance": 1e-9},))
    pair = ({"other": d, "tolerance": 1e-9},)
    yield Entry("qif.Channel.is_equivalent_to", c.is_equivalent_to, pair)
    yield Entry("qif.Channel.is_refined_by", c.is_refined_by, pair)
    yield Entry("qif.Channel.post_processing_to", c.post_processing_to, ({"other": d},))


def _reidentification() -> Iterator[Entry]:
    p, q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    users = ({"users": 5, "guesses": 2}, {"users": 10**6})
    laws = tuple({"p": p, "q": q} | count for count in users)
    alone = ({"p": p, "q": q, "users": 10}, {"p": [0.5, 0.5], "q": [1.0, 0.0], "users": 10**6})
    response = sa.RandomizedResponse(categories=3, eps0=1.0)
    rounds = tuple(
        {"randomizer": randomizer, "users": 10, "target": target}
        for randomizer, target in (
            (response, 1),
            (response, [0.2, 0.3, 0.5]),
            (sa.LaplaceRandomizer(eps0=1.0), 0.3),
            (sa.GaussianRandomizer(sigma=1.0), 0.3),
            (sa.GeneralRandomizer(eps0=1.0), None),
        )
    )
    guessed = tuple(base | {"guesses": 2} for base in rounds)
    noise = tuple(base for base in users)
    r = reidentification
    decoys = sa.ShuffleRound(response, users=10, reduction="blanket").target_among_decoys()
    tables: dict[str, tuple[tuple[dict[str, Any], ...], bool]] = {
        "additive_advantage": (laws, True),
        "advantage_bounds": (alone, True),
        "asymptote": (laws, True),
        "bound": (tuple(b | {"method": m} for b in guessed for m in r.METHODS), True),
        "bound_among": (
            ({"p": p, "others": [q, p, q], "guesses": 1}, {"p": p, "others": [q, p], "users": 3}),
            True,
        ),
        "bracket": (guessed, True),
        "clones_psi": (tuple({"gamma": 0.3} | count for count in users), True),
        "gaussian_blanket": (tuple({"sigma": 1.0, "target": 0.3} | count for count in noise), True),
        "gaussian_success": (tuple({"gap": 1.0} | count for count in noise), True),
        "laplace_blanket": (tuple({"eps0": 1.0, "target": 0.3} | count for count in noise), True),
        "laplace_success": (tuple({"gap": 1.0} | count for count in noise), True),
        "multiplicative_advantage": (laws, False),
        "psi": (tuple({"p": p, "common": [0.1, 0.2, 0.1]} | count for count in users), True),
        "success_among_decoys": (({"decoys": decoys, "guesses": 2},), True),
        "success_from_ratio_law": (
            (
                {
                    "target_above": lambda t: np.where(t < 0.5, 1.0, np.where(t < 2.0, 2 / 3, 0.0)),
                    "decoys_above": lambda t: np.where(t < 0.5, 1.0, np.where(t < 2.0, 1 / 3, 0.0)),
                    "ratios": [0.1, 0.5, 1.0, 2.0],
                    "users": 10,
                    "guesses": 2,
                    "error": 1e-15,
                },
            ),
            True,
        ),
        "success_in_population": (
            (
                {
                    "randomizer": response,
                    "users": 10,
                    "target": 1,
                    "others": [0.2, 0.3, 0.5],
                    "guesses": 2,
                },
                {
                    "randomizer": response,
                    "users": 4,
                    "target": [0.2, 0.3, 0.5],
                    "others": [0.2, 0.3, 0.5],
                },
            ),
            True,
        ),
        "success_probability": (laws, True),
        "sup_ratio": (tuple(_without(base, "users") for base in rounds), False),
        "total_variation": (({"p": p, "q": q},), True),
    }
    for name, (bases, probability) in tables.items():
        yield Entry(f"reidentification.{name}", getattr(r, name), bases, probability)
    e = r.examples
    yield Entry(
        "examples.honeywords_needed",
        e.honeywords_needed,
        ({"level": 0.01, "exponent": 0.7}, {"level": 0.01, "passwords": 1000, "exponent": 0.7}),
        work={"passwords": _up_to(10**5)},
    )
    yield Entry("examples.laplace_ratio", e.laplace_ratio, ({"eps0": 1.0, "target": 0.3},))
    yield Entry("examples.linear_density", e.linear_density, users, True)
    yield Entry("examples.lower_end_pair", e.lower_end_pair, ({"share": 0.3},), True)
    yield Entry("examples.response_ratio", e.response_ratio, ({"first": 0.3, "eps0": 1.0},))
    yield Entry("examples.upper_end_pair", e.upper_end_pair, ({"share": 0.3},), True)
    yield Entry(
        "examples.zipf_honeywords",
        e.zipf_honeywords,
        ({"users": 20, "passwords": 1000, "exponent": 0.7, "guesses": 2},),
        True,
        work={"passwords": _up_to(10**5)},
    )
    limit = {"users": 20, "exponent": 0.7, "guesses": 2}
    yield Entry("examples.zipf_limit", e.zipf_limit, (limit,), True)
    t = r.published
    yield Entry("published.theorem_1", t.theorem_1, laws[:1], work={"guesses": _up_to(10**4)})
    yield Entry("published.theorem_2", t.theorem_2, alone)
    yield Entry("published.theorem_4", t.theorem_4, alone)
    yield Entry("published.theorem_5", t.theorem_5, alone, True)
    seventh = {"p": p, "common": q, "gamma": 0.3, "users": 10}
    yield Entry("published.theorem_7", t.theorem_7, (seventh,), work={"users": _up_to(1000)})
    yield Entry("published.theorem_8", t.theorem_8, ({"eps0": 1.0, "users": 10},), True)
    yield Entry("published.theorem_10", t.theorem_10, rounds, True)


def _mutual_information() -> Iterator[Entry]:
    m = mutual_information
    p, q = [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]
    pair = {"p": p, "q": q}
    users = (pair | {"users": 5}, {"p": [0.6, 0.4], "q": [0.3, 0.7], "users": 1000})
    others = {"randomizer": sa.RandomizedResponse(categories=3, eps0=1.0), "users": 10}
    general = {"randomizer": sa.GeneralRandomizer(eps0=1.0), "users": 10}
    tables: dict[str, tuple[dict[str, Any], ...]] = {
        "clones_message": ({"p": p, "eps0": 1.0, "users": 5},),
        "closed_form": ({"p": [1.0, 0.0], "q": [0.5, 0.5], "users": 5},),
        "first_order": ({"eps0": 1.0},),
        "heterogeneous_message": ({"laws": [p, q, q], "among": [1, 2]}, {"laws": [p, q]}),
        "heterogeneous_position": ({"laws": [p, q, q]},),
        "input_bound": (others | {"prior": [0.2, 0.3, 0.5]}, general),
        "leading_constant": (pair, {"p": p}),
        "message": users,
        "message_expansion": (pair,),
        "optimal_decoy": ({"p": p},),
        "position": users,
        "position_bounds": (others, general),
        "position_expansion": (pair,),
        "response_constants": ({"categories": 4, "eps0": 1.0},),
        "shuffled_divergence": users,
        "universal_bounds": ({"eps0": 1.0, "users": 10},),
    }
    for name, bases in tables.items():
        yield Entry(f"mutual_information.{name}", getattr(m, name), bases)
    expansion = m.position_expansion(p, q)
    yield Entry("mutual_information.Expansion.at", expansion.at, ({"users": 10},))
    yield Entry("mutual_information.Expansion.deviation", expansion.deviation, ({"users": 10},))


def _order() -> Iterator[Entry]:
    o = sa.order
    lists = [[0, 1], [1, 0, 2], [2, 1], [3]]
    groups = o.Groups.from_lists(lists)
    coarse = o.Groups.from_lists([[0, 1], [2, 3]], users=4)
    order = [2, 0, 1, 3]
    yield Entry("Groups.from_lists", o.Groups.from_lists, ({"lists": lists, "users": 4},))
    places = ({"points": [0.0, 1.0, 3.0], "r": 1.5}, {"points": [[0.0, 1.0], [2.0, 0.0]], "r": 1.5})
    yield Entry("Groups.from_radius", o.Groups.from_radius, places)
    yield Entry("Groups.from_scalar", o.Groups.from_scalar, ({"t": [0.0, 1.0, 3.0], "r": 1.5},))
    graph = {"adjacency": [[0, 1, 0], [1, 0, 1], [0, 1, 0]], "hops": 2}
    yield Entry("Groups.from_graph", o.Groups.from_graph, (graph,))
    yield Entry("Groups.of", groups.of, ({"user": 1},))
    for law in (o.MallowsCayley, o.MallowsHamming, o.MallowsKendall):
        name, base = law.__name__, ({"users": 6, "theta": 0.5},)
        for method in ("log_psi", "mean_distance", "var_distance"):
            yield Entry(f"{name}.{method}", _then(law, method), base, work={"users": _up_to(10**6)})
        sample = lambda users, theta, law=law: law(users, theta).sample(np.random.default_rng(1))  # noqa: E731
        yield Entry(f"{name}.sample", sample, base, work={"users": _up_to(10**5)})
        logpmf = law(4, 0.5).logpmf
        yield Entry(f"{name}.logpmf", logpmf, ({"permutation": order},))
    shuffler = {
        "groups": groups,
        "alpha": 1.0,
        "distance": "kendall",
        "sensitivity": "exact",
        "order": order,
    }
    yield Entry("DSigmaShuffler", o.DSigmaShuffler, (shuffler, shuffler | {"order": "bfs"}))
    blocks = o.BlockShuffler(coarse)
    yield Entry("BlockShuffler", o.BlockShuffler, ({"groups": coarse},))
    yield Entry("BlockShuffler.alpha_for", blocks.alpha_for, ({"groups": groups},))
    yield Entry("compose", o.compose, ({"alphas": [0.5, 1.0]},), owner=("alpha",))
    yield Entry("group_width", o.group_width, ({"order": order, "groups": groups},))
    yield Entry(
        "inference_attack",
        o.inference_attack,
        (
            {
                "values": [0, 1, 2, 1],
                "neighbours": [[1], [0], [3], [2]],
                "permutation": order,
                "categories": 3,
                "eps0": 1.0,
                "trials": 3,
                "threshold": 0.9,
                "rng": 1,
            },
        ),
        work={"trials": _up_to(100)},
    )
    points = np.linspace(0.0, 1.0, 24)
    learn = {"points": points, "iterations": 2, "seed": 0}
    labels = np.arange(24) % 2
    work = {"iterations": _up_to(20)}
    test = {"released": labels, "test_points": [0.1, 0.9], "test_values": [0, 1]}
    yield Entry("learnability", o.learnability, (learn | test,), True, work)
    yield Entry("posterior_odds_bound", o.posterior_odds_bound, ({"alpha": 1.0},))
    kept = {"users": 20, "l": 5, "eta": 0.6, "theta": 0.5}
    end, inner = (
        {"distance": "kendall", "interval": (0, 5)},
        {"distance": "kendall", "interval": (7, 5)},
    )
    yield Entry(
        "preservation_delta",
        o.preservation_delta,
        (
            kept | {"distance": "hamming"},
            kept | end,
            kept | inner,
            kept | {"users": 10**6, "l": 10**3},
        ),
        True,
    )
    sampling = {"samples": 20, "confidence": 0.95, "rng": 1}
    yield Entry(
        "preservation_mc",
        o.preservation_mc,
        (
            kept | end | sampling,
            kept | sampling | {"distance": "kendall", "slots": [0, 3, 5, 7, 9]},
        ),
        work={"samples": _up_to(100), "users": _up_to(10**4)},
    )
    yield Entry(
        "reference_order",
        o.reference_order,
        (
            {"groups": groups, "method": "bfs", "coarse": coarse, "root": 1},
            {"groups": groups, "method": "rcm", "coarse": [1, 0, 3, 2]},
        ),
    )
    yield Entry(
        "reidentification_bound",
        o.reidentification_bound,
        (
            {"r": 20, "k": 3, "eps0": 0.5, "alpha": 1.0, "method": "best"},
            {"r": 6, "k": 1, "eps0": 0.1, "alpha": 0.0},
        ),
    )
    measured = tuple(
        {"order": order, "groups": groups, "distance": distance, "kind": kind}
        for distance in ("kendall", "hamming", "cayley", "footrule", "spearman", "ulam")
        for kind in ("exact", "bound")
    )
    yield Entry("sensitivity", o.sensitivity, measured)
    verified = {"groups": groups, "order": order, "theta": 0.5, "distance": "kendall"}
    yield Entry("verify_alpha", o.verify_alpha, (verified,))
    yield Entry(
        "crescents",
        experiments.crescents,
        ({"users": 20, "noise": 0.1, "gap": 4.5, "rng": 1},),
        work={"users": _up_to(10**6)},
    )
    truth = np.full((24, 2), [0.3, 0.7])
    error = learn | {"released": labels, "truth": truth, "categories": 2, "eps0": 1.0}
    yield Entry(
        "experiments.distribution_error", experiments.distribution_error, (error,), work=work
    )
    yield Entry(
        "experiments.grid_blocks", experiments.grid_blocks, ({"points": points, "width": 0.3},)
    )
    near = {"points": points, "values": labels, "radius": 0.2, "categories": 2}
    yield Entry("experiments.local_distributions", experiments.local_distributions, (near,), True)
    yield Entry(
        "experiments.nearest_users", experiments.nearest_users, ({"points": points, "count": 3},)
    )
    noisy = {"values": labels, "categories": 2, "eps0": 1.0, "rng": 1}
    yield Entry("experiments.randomize", experiments.randomize, (noisy,))


def _calibration() -> Iterator[Entry]:
    target = {"target_epsilon": 0.5, "delta": 1e-5, "tolerance": 1e-2}
    words: dict[str, Any] = {"reduction": "auto", "variant": None}
    maker = words | {"randomizer": sa.GeneralRandomizer}
    one = {"users": 1000, "rounds": 2} | target | maker
    work = {
        "rounds": _up_to(10**4, 10**12),
        "users": _up_to(10**7, 2**53),
        "population": _up_to(10**6, 2**53),
        "min_users": _up_to(10**7, 2**53),
        "colluding": _up_to(10**5, 2**53),
        "participation": (1e-3, 1.0, 1.0),
        "delta": (1e-100, 1.0, 1.0),
        "tolerance": (1e-3, math.inf, math.inf),
        "target_epsilon": (1e-2, 10.0, math.inf),
        "eps0": (1e-2, 10.0, 700.0),
    }
    plain = {"users": 1000, "rounds": 1, "tolerance": 1e-2} | maker
    risks = (
        plain | {"target_advantage": 0.1, "rounds": 2},
        plain | {"target_trade_off": (0.1, 0.8)},
        plain | {"target_reidentification": 0.01},
    )
    # up to fifteen answers each
    few = {"min_users": 900, "participation": None, "colluding": 5}
    part = {"min_users": None, "participation": 0.9, "colluding": 5}
    bases = one, one | {"population": 2000}, one | few, one | part, *risks
    yield Entry("max_eps0", sa.max_eps0, bases, work=work, seconds=5.0)
    users = {"eps0": 1.0, "rounds": 2, "participation": 0.9, "colluding": 5} | target | maker
    yield Entry("min_users", sa.min_users, (users,), work=work, seconds=5.0)
    round = sa.ShuffleRound(sa.GeneralRandomizer(eps0=0.5), users=1000)
    drawn = sa.ShuffleRound(sa.GeneralRandomizer(eps0=0.5), users=1000, population=1500)
    # of up to a billion rounds
    yield Entry(
        "max_rounds",
        sa.max_rounds,
        tuple({"round": one} | target for one in (round, drawn)),
        work=work,
        seconds=20.0,
    )


def _protocols() -> Iterator[Entry]:
    protocol = {"eps0": 0.5, "users": 1000, "delta": 1e-5, "rounds": 2, "tolerance": 1e-2}
    several = (protocol | {"categories": None}, protocol | {"population": 2000})
    work = {
        "rounds": _up_to(1000),
        "tolerance": (1e-3, math.inf, math.inf),
        "categories": _up_to(0, 2**53),
        "eps0": _up_to(1e15, math.inf),
        "delta": (1e-100, 1.0, 1.0),
    }
    # a dozen answers, and more where others are composed
    yield Entry("comparison.compare", comparison.compare, several, work=work, seconds=10.0)
    round = sa.ShuffleRound(sa.GeneralRandomizer(eps0=0.5), users=1000)
    told = {"subject": round, "delta": 1e-5, "order": None, "tolerance": 1e-2}
    yield Entry("report", sa.report, (told,), work={"tolerance": work["tolerance"]})


def _rounds() -> Iterator[Entry]:
    """What makes rounds, and their answers."""
    gaussian, pure = sa.GaussianMechanism(noise_multiplier=1.0), sa.PureMechanism(epsilon=0.5)
    yield Entry("GaussianMechanism", sa.GaussianMechanism, ({"noise_multiplier": 1.0},))
    yield Entry("LaplaceMechanism", sa.LaplaceMechanism, ({"scale": 1.0},))
    yield Entry("PureMechanism", sa.PureMechanism, ({"epsilon": 0.5},))
    epoch = {"mechanism": gaussian, "steps": 20, "selected": 1, "released": None, "passes": 1}
    epoch |= {"records_per_user": 1, "together": False}
    epochs = (epoch, epoch | {"released": 7}, epoch | {"mechanism": pure, "selected": 3})
    yield Entry("RandomAllocation", sa.RandomAllocation, (*epochs, epoch | {"passes": 2}))
    drawn = {"mechanism": gaussian, "rate": 0.1, "records_per_user": 2}
    yield Entry("PoissonSampled", sa.PoissonSampled, (drawn,))
    leak = {"exposure": 0.1, "everyone": True, "persistent": False, "weights": None}
    leak |= {"batches": None, "random_batches": False, "minimum_batch": None}
    few = leak | {"exposure": 0.0, "minimum_batch": 5}
    yield Entry("Shuffler", sa.Shuffler, (leak, few))
    two = sa.RandomizedResponse(categories=2, eps0=1.0)
    memo = {"permanent": two, "instantaneous": two, "users": 20, "rounds": 9, "colluding": 2}
    memo |= {"same_participants": True, "smallest_pattern": 3, "values_per_user": 2}
    memo |= {"change_times": None}
    yield Entry("MemoisedRounds", sa.MemoisedRounds, (memo,))
    rare = {"probability": 0.1, "threshold": 10, "adjacency": sa.Adjacency.ADD_REMOVE}
    yield Entry("SampleAndThreshold", sa.SampleAndThreshold, (rare,))
    some = {"mechanism": gaussian, "size": 10, "population": 100}
    yield Entry("FixedSizeSampled", sa.FixedSizeSampled, (some,))
    turns = {"mechanism": gaussian, "rate": 0.1, "cycles": 7}
    yield Entry("CyclicPoisson", sa.CyclicPoisson, (turns,))
    noisy = {"coefficients": [1.0, 0.5], "tree": False, "noise_multiplier": 2.0, "bins": 4}
    noisy |= {"epochs": 2, "normalised": True}
    yield Entry("MatrixMechanism", sa.MatrixMechanism, (noisy,))
    yield Entry("sqrt_coefficients", sa.sqrt_coefficients, ({"bands": 4},))
    yield Entry("Geometric", sa.Geometric, ({"mean": 4.0},))
    yield Entry("Fixed", sa.Fixed, ({"runs": 3},))
    search = {"protocol": sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=100)}
    yield Entry("selection", sa.selection, (search | {"runs": sa.Fixed(2)},))
    batches = {"noise_multiplier": 1.0, "steps": 20, "passes": 1}
    yield Entry("ShuffledBatches", sa.ShuffledBatches, (batches,))
    size, trials = {"size": 2.0, "probability": 0.1}, {"trials": 400, "probability": 0.5}
    yield Entry("NegativeBinomial", sa.NegativeBinomial, (size,))
    yield Entry("Poisson", sa.Poisson, ({"mean": 50.0},))
    yield Entry("Binomial", sa.Binomial, (trials,))
    sides = {"mode": 20, "left": 0.8, "right": 0.7}
    yield Entry("AsymmetricGeometric", sa.AsymmetricGeometric, (sides,))
    yield Entry("DiscreteGaussian", sa.DiscreteGaussian, ({"mode": 90, "sigma": 5.0},))
    dummies = sa.Poisson(mean=50.0)
    noise = {"categories": 5, "dummies": dummies, "honest": 1.0}
    yield Entry("NoiseMessages", sa.NoiseMessages, (noise, noise | {"honest": 0.9}))
    kept = {"categories": 5, "keep": 0.9, "dummies": dummies}
    yield Entry("AugmentedShuffle", sa.AugmentedShuffle, (kept,))
    yield Entry("GaussianVectors", sa.GaussianVectors, ({"noise_multiplier": 2.0},))
    near = {"eps0": 2.0, "delta0": 1e-10}
    yield Entry("ApproximateRandomizer", sa.ApproximateRandomizer, (near,))
    crowd = {
        "randomizer": sa.RandomizedResponse(categories=3, eps0=1.0),
        "users": 100,
        "population": None,
        "reduction": "auto",
        "variant": None,
        "others": {sa.RandomizedResponse(categories=3, eps0=2.0): 50},
        "colluding": 5,
        "messages_per_user": 2,
        "messages": None,
        "shuffler": None,
    }
    drawn = crowd | {"others": None, "colluding": 0, "population": 200, "messages_per_user": 1}
    sent = crowd | {"others": None, "colluding": 0, "messages": 150}
    yield Entry("ShuffleRound", sa.ShuffleRound, (crowd, drawn, sent))
    work = {
        "steps": _up_to(10**5, 10**18),
        "rounds": _up_to(10**5, 10**18),
        "delta": (1e-100, 1.0, 1.0),
        "noise_multiplier": (0.05, 1e6, 1e308),
    }
    asked = {"noise_multiplier": 1.0, "steps": 20, "delta": 1e-6, "rounds": 3}
    for name, call in (("allocation", _dealt), ("Poisson sampling", _sampled)):
        yield Entry(f"epsilon of {name}", call, (asked,), work=work, seconds=5.0)
    counted = {"size": 2.0, "probability": 0.1, "honest": 0.9, "keep": 0.9, "epsilon": 1.0}
    few = {"size": (1e-3, 1e4, 1e308), "probability": (1e-4, 1.0, 1.0)}
    name = "delta of dummies"
    yield Entry(name, _among_dummies, (counted,), True, few, ("dummies",), seconds=5.0)
    poisson = {"mean": 50.0, "honest": 0.9, "epsilon": 1.0}
    few = {"mean": (1e-3, 1e5, 1e308)}
    yield Entry("delta of Poisson dummies", _among_poisson, (poisson,), True, few, ("dummies",))
    coins = {"trials": 400, "probability": 0.5, "honest": 0.9, "epsilon": 1.0}
    few = {"trials": _up_to(10**5, 2**53)}
    yield Entry("delta of coins", _among_coins, (coins,), True, few, ("dummies",))
    noisy = {"sampling": "allocation", "steps": 20, "epochs": 2, "target_epsilon": 1.0}
    noisy |= {"records_per_user": 2}
    least = noisy | {"delta": 1e-6, "tolerance": 0.05}
    work |= {"target_epsilon": (0.1, 20.0, 1e308), "epochs": _up_to(100, 10**18)}
    work |= {"records_per_user": _up_to(3, 10**18)}
    work |= {"steps": _up_to(1000, 10**18), "tolerance": (0.01, math.inf, math.inf)}
    yield Entry("min_noise_multiplier", sa.min_noise_multiplier, (least,), work=work, seconds=5.0)


def _dealt(noise_multiplier: Any, steps: Any, delta: Any, rounds: Any) -> Any:
    mechanism = sa.GaussianMechanism(noise_multiplier=noise_multiplier)
    return sa.epsilon(sa.RandomAllocation(mechanism, steps=steps), delta=delta, rounds=rounds)


def _sampled(noise_multiplier: Any, steps: Any, delta: Any, rounds: Any) -> Any:
    mechanism = sa.GaussianMechanism(noise_multiplier=noise_multiplier)
    # the rate of an epoch of so many steps
    epoch = sa.RandomAllocation(mechanism, steps=steps)
    one = sa.PoissonSampled(mechanism, rate=1.0 / epoch.steps)
    return sa.epsilon(one, delta=delta, rounds=rounds)


def _among_dummies(size: Any, probability: Any, honest: Any, keep: Any, epsilon: Any) -> Any:
    dummies = sa.NegativeBinomial(size=size, probability=probability)
    noise = sa.NoiseMessages(categories=5, dummies=dummies, honest=honest)
    kept = sa.AugmentedShuffle(categories=5, keep=keep, dummies=dummies)
    return sa.delta(noise, epsilon=epsilon), sa.delta(kept, epsilon=epsilon)


def _among_poisson(mean: Any, honest: Any, epsilon: Any) -> Any:
    noise = sa.NoiseMessages(categories=5, dummies=sa.Poisson(mean=mean), honest=honest)
    return sa.delta(noise, epsilon=epsilon)


def _among_coins(trials: Any, probability: Any, honest: Any, epsilon: Any) -> Any:
    dummies = sa.Binomial(trials=trials, probability=probability)
    noise = sa.NoiseMessages(categories=5, dummies=dummies, honest=honest)
    return sa.delta(noise, epsilon=epsilon)


def _design() -> Iterator[Entry]:
    asked: dict[str, Any] = {
        "users": 2,
        "target_epsilon": 0.05,
        "delta": 1e-9,
        "rounds": 2,
        "tolerance": 0.1,
    }
    work = {
        "users": _up_to(10, 2**60),
        "rounds": _up_to(100, 2**60),
        "categories": _up_to(10, 2**60),
        "dimension": _up_to(10, 2**60),
        "target_epsilon": (1e-3, 0.2, 1e308),
        "delta": (1e-30, 1e-3, 1.0),
        "tolerance": (0.01, math.inf, math.inf),
        "jobs": _up_to(1),
    }
    asked |= {"min_users": 2, "participation": None, "colluding": 1}
    asked |= {"exclude": (), "most_bits": 64.0, "most_messages": 2.0}
    work |= {"min_users": _up_to(10, 2**60), "colluding": _up_to(10, 2**60)}
    counted = asked | {"categories": 3, "jobs": None}
    yield Entry("design.frequency", sa.design.frequency, (counted,), work=work, seconds=20.0)
    vectors = asked | {"dimension": 3, "gaussian_messages": False, "jobs": None}
    yield Entry("design.mean", sa.design.mean, (vectors,), work=work, seconds=20.0)
    round = sa.ShuffleRound(sa.RandomizedResponse(categories=3, eps0=1.0), users=100)
    limit = {"round": round, "rounds": 3}
    yield Entry("design.asymptotic", sa.design.asymptotic, (limit,))


def _up_to(most: float, allowed: float = 1e9) -> tuple[float, float, float]:
    return 0.0, most, allowed


def _without(base: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in base.items() if key != name}


def _then(kind: type, method: str) -> Callable[..., Any]:
    def call(users: Any, theta: Any) -> Any:
        return getattr(kind(users, theta), method)()

    return call


ENTRIES: tuple[Entry, ...] = (
    *_baselines(),
    *_qif(),
    *_reidentification(),
    *_mutual_information(),
    *_order(),
    *_calibration(),
    *_protocols(),
    *_rounds(),
    *_design(),
)
"""Every public function of these modules, and the methods that take arguments."""

EXEMPT: Mapping[str, str] = {
    "Expansion": "an answer: nobody makes one",
    "FirstOrder": "an answer: nobody makes one",
    "HeterogeneousPosition": "an answer: nobody makes one",
    "PositionBounds": "an answer: nobody makes one",
    "ResponseConstants": "an answer: nobody makes one",
    "UniversalBounds": "an answer: nobody makes one",
    "AdultTable": "an answer: nobody makes one",
    "AttackResult": "an answer: nobody makes one",
    "Crescents": "an answer: nobody makes one",
    "OrderWarning": "a kind of warning",
    "read_adult": "takes the path of a file, and no number",
    "Groups": "made by its four constructors, which are here",
    "MallowsCayley": "its methods are here",
    "MallowsHamming": "its methods are here",
    "MallowsKendall": "its methods are here",
}
"""Public callables that are not called, with the reason."""


def public_callables() -> dict[str, Callable[..., Any]]:
    """All that the facades name and that can be called, by module and name."""
    named = [getattr(sa.baselines, name) for name in sa.baselines.__all__]
    modules: list[ModuleType] = [one for one in named if inspect.ismodule(one)]
    modules += [qif, reidentification, reidentification.examples, reidentification.published]
    modules += [mutual_information, sa.order, experiments]
    modules.append(importlib.import_module("shuffle_accountant.calibration.calibrate"))
    return {
        f"{module.__name__.split('.')[-1]}.{name}": value
        for module in modules
        for name in module.__all__
        if callable(value := getattr(module, name)) and not inspect.ismodule(value)
    }


# ---------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A call of an entry: its usual arguments, and what is put in place of some of them."""

    entry: Entry
    base: Mapping[str, Any]
    changed: Mapping[str, Any]

    def __str__(self) -> str:
        changed = ", ".join(f"{name}={_short(value)}" for name, value in self.changed.items())
        usual = ", ".join(
            f"{name}={_short(value)}"
            for name, value in self.base.items()
            if name not in self.changed
        )
        return f"{self.entry.name}({changed}; {usual})"


def cases(rng: np.random.Generator, *, entries: tuple[Entry, ...] = ENTRIES) -> Iterator[Case]:
    """Cases without end: now and then two arguments are replaced, else one."""
    _dealt(1.0, 2, 1e-3, 1)  # what a process compiles once is no call's fault
    while True:
        for entry in entries:
            base = entry.bases[rng.integers(len(entry.bases))]
            count = min(1 + int(rng.random() < 0.25), len(base))
            names = rng.choice(sorted(base), size=count, replace=False).tolist()
            changed = {name: _hostile(rng, base[name]) for name in names}
            if not any(_too_much(entry, name, value) for name, value in changed.items()):
                yield Case(entry, base, changed)


def _too_much(entry: Entry, name: str, value: Any) -> bool:
    """Whether so much work is asked for that it may take its time."""
    if name not in entry.work or not isinstance(value, int | float | Fraction | np.number):
        return False
    if isinstance(value, complex | np.complexfloating | np.timedelta64):
        return False
    if isinstance(value, np.number):  # short ones cannot be compared with long ones
        value = float(value)
    least, most, allowed = entry.work[name]
    return bool(0 < value < least or most < value <= allowed)


# ---------------------------------------- the check


class _TooLong(BaseException):
    """Not an `Exception`, so that nothing on the way takes it for an error of its own."""


def check(case: Case, *, timed: bool = True) -> str | None:
    """What is wrong with how the call ends, in one line; None if nothing is.

    Args:
        case: the call.
        timed: whether it may take too long; what other processes do slows the processor, too.
    """
    outcome, seconds, heard = _run(case)
    fault = _verdict(case, outcome, heard)
    if timed and fault is None and seconds > case.entry.seconds:
        fault = f"took {seconds:.1f} s"
    if fault is None and not isinstance(outcome, BaseException):
        fault = _differs(case, outcome)
    return None if fault is None else f"{case}: {fault}"


def _run(case: Case) -> tuple[Any, float, list[str]]:
    """The answer or the exception, processor time, and warnings that are not the package's."""
    start = time.thread_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with _alarm():
                outcome = _consumed(case.entry.call(**{**case.base, **case.changed}))
        except (Exception, _TooLong) as error:
            outcome = error
    own = (sa.LooseBracketWarning, sa.WeakPrivacyWarning, sa.order.OrderWarning)
    heard = [str(w.message) for w in caught if not issubclass(w.category, own)]
    # joblib is right: the fuzzer's processes may have no workers of their own
    heard = [message for message in heard if not message.startswith("Loky-backed")]
    return outcome, time.thread_time() - start, heard


@contextmanager
def _alarm() -> Iterator[None]:
    """Interrupts a call that never ends, where there are such signals."""
    if not hasattr(signal, "SIGPROF"):
        yield
        return

    def stop(*_: Any) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, _GIVE_UP)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def _consumed(answer: Any) -> Any:
    """Iterators are lazy: their first few items."""
    return tuple(islice(answer, 1000)) if isinstance(answer, Iterator) else answer


def _verdict(case: Case, outcome: Any, heard: list[str]) -> str | None:
    if isinstance(outcome, _TooLong):
        return f"did not end within {_GIVE_UP:g} s of the processor"
    if heard:
        return f"warned {heard[0]!r:.100}"
    if isinstance(outcome, BaseException):
        return _bad_error(case, outcome)
    for number in _numbers(outcome):
        if math.isnan(number):
            return "answered NaN"
        if case.entry.probability and not 0.0 <= number <= 1.0:
            return f"answered {number!r}, which is no probability"
    return _disorder(outcome)


def _bad_error(case: Case, error: BaseException) -> str | None:
    told = f"{type(error).__name__}: {str(error)!r:.160}"
    if not isinstance(error, ValueError | TypeError) or len(str(error).splitlines()) != 1:
        return f"raised {told}"
    if any(value is len for value in case.changed.values()) and "len()" in str(error):
        return None  # what a function that is handed over raises itself is passed on as it is
    replaced = [name for name in case.changed if _names(str(error), name)]
    known = [name for name in (*case.base, *case.entry.owner) if _names(str(error), name)]
    if not (known if isinstance(error, ValueError) or case.entry.owner else replaced):
        return f"raised what names no argument, {told}"
    return None


def _names(message: str, name: str) -> bool:
    return re.search(rf"(?<!\w){name}(?!\w)", message) is not None


def _numbers(answer: Any) -> Iterator[float]:
    """All numbers of an answer."""
    if isinstance(answer, Bracket | Attained):
        yield from (answer.lower, answer.upper)
    elif isinstance(answer, bool | np.bool_ | str | bytes | None):
        return
    elif isinstance(answer, int | float | np.number | Fraction):
        try:
            yield float(answer)
        except OverflowError:  # an integer, so not NaN
            yield math.inf if answer > 0 else -math.inf
    elif isinstance(answer, np.ndarray) and answer.dtype.kind in "iuf":
        if answer.size:  # both are NaN if an entry is
            yield from (float(answer.min()), float(answer.max()))
    elif isinstance(answer, qif.Channel):
        yield from _numbers(answer.matrix)
    elif dataclasses.is_dataclass(answer) and not isinstance(answer, sa.order.Groups):
        for field in dataclasses.fields(answer):
            yield from _numbers(getattr(answer, field.name))
    elif isinstance(answer, tuple | list):
        for part in answer:
            yield from _numbers(part)


def _disorder(answer: Any) -> str | None:
    if isinstance(answer, Bracket | Attained) and not answer.lower <= answer.upper:
        return f"answered the bracket {answer!r}, which is in disorder"
    return None


def _differs(case: Case, outcome: Any) -> str | None:
    """A NumPy number must give what the Python number of its value gives."""
    plain = {
        name: value.item()
        for name, value in case.changed.items()
        if isinstance(value, np.integer | np.float16 | np.float32 | np.float64)
    }
    if not plain:
        return None
    other, _, _ = _run(Case(case.entry, case.base, {**case.changed, **plain}))
    if isinstance(other, BaseException):
        return f"answered, while {plain} raises {other!r:.100}"
    one, two = list(_numbers(outcome)), list(_numbers(other))
    return None if one == two else f"answered {one[:3]}, but {two[:3]} for {plain}"


def _short(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of too many digits to print
        text = f"an integer of {value.bit_length()} bits"
    return text if len(text) <= 60 else f"{text[:57]}..."
