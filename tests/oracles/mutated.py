"""States of every format, and what happens to a file that somebody edited, or that was cut short.

`FORMATS` has, by name, a state as it is written and what reads it. `mutations` draws a state in
which fields are missing, doubled, renamed, of another type, huge, negative, no number, or nested
otherwise; `texts` draws a text of it that is cut, or has a byte changed. `refusal` reads it, and
says what is wrong with how that ended: reading may succeed, or raise a `ValueError` or a
`TypeError` of one line, within two seconds of processor time.
"""

from __future__ import annotations

import copy
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import shuffle_accountant as sa
from shuffle_accountant.randomizers.registry import randomizer_from_dict
from shuffle_accountant.registry import sealed

__all__ = [
    "CALLS",
    "FORMATS",
    "LONG",
    "Format",
    "arguments",
    "certificate_formats",
    "mutations",
    "refusal",
    "texts",
    "values",
]

SECONDS = 2.0
"""Processor time that refusing may take."""

_SAID = 400  # characters of one line


@dataclass(frozen=True)
class Format:
    """A state as it is written, and what reads it."""

    state: Any
    read: Callable[[Any], Any]

    def read_text(self, text: str) -> Any:
        """Read it as a file is read."""
        return self.read(json.loads(text))


def _certificate(state: Any) -> Any:
    text = json.dumps(state, allow_nan=True)
    return sa.certificates.Certificate.from_json(text)


def _verified(state: Any) -> Any:
    """With its digest computed anew, so that the content itself is looked at."""
    content = sa.certificates.Certificate.from_content(state)
    return sa.certificates.verify(content)


def _resealed(state: Any) -> Any:
    """With its digest computed anew, so that the content itself is looked at."""
    if not isinstance(state, dict) or "digest" not in state:
        return state
    return sealed({name: held for name, held in state.items() if name != "digest"})


def _rounds() -> Iterator[tuple[str, Any]]:
    response = sa.RandomizedResponse(eps0=1.0, categories=3)
    other = sa.RandomizedResponse(eps0=2.0, categories=3)
    gaussian = sa.GaussianMechanism(noise_multiplier=1.0)
    yield "plain", sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=100)
    yield "sampled", sa.ShuffleRound(response, users=100, population=300, colluding=2)
    yield "mixed", sa.ShuffleRound(response, users=10, others={other: 20}, colluding=3)
    yield "random", sa.ShuffleRound(response, users=sa.Binomial(trials=50, probability=0.5))
    yield "strong", sa.ShuffleRound(response, users=9, reduction="strong", variant="paper")
    yield "channel", sa.ShuffleRound(sa.DiscreteRandomizer([[0.7, 0.3], [0.2, 0.8]]), users=5)
    yield (
        "null law",
        sa.ShuffleRound(sa.ApproximateRandomizer(eps0=1.0, delta0=1e-9), users=50),
    )
    yield "vectors", sa.ShuffleRound(sa.GaussianVectors(noise_multiplier=2.0), users=50)
    yield "allocation", sa.RandomAllocation(gaussian, steps=10, selected=2)
    yield "released", sa.RandomAllocation(sa.LaplaceMechanism(scale=1.0), steps=9, released=4)
    yield "batches", sa.ShuffledBatches(noise_multiplier=1.0, steps=10, passes=2)
    yield "Poisson", sa.PoissonSampled(sa.PureMechanism(epsilon=0.5), rate=0.1)
    yield "records", sa.PoissonSampled(gaussian, rate=0.1, records_per_user=2)
    yield "dealt records", sa.RandomAllocation(gaussian, steps=9, records_per_user=2)
    yield "cyclic", sa.CyclicPoisson(gaussian, rate=0.1, cycles=5)
    falling = sa.GaussianMechanism(noise_multiplier=[2.0, 1.0, 1.0])
    yield "schedule", sa.RandomAllocation(falling, steps=3)
    yield "tree", sa.MatrixMechanism(tree=True, noise_multiplier=4.0, bins=4)
    bands = sa.sqrt_coefficients(bands=3)
    yield "bands", sa.MatrixMechanism(coefficients=bands, noise_multiplier=2.0, bins=8)
    yield "fixed size", sa.FixedSizeSampled(gaussian, size=3, population=30)
    yield "messages", sa.ShuffleRound(response, messages=30, messages_per_user=3)
    two = sa.RandomizedResponse(categories=2, eps0=1.0)
    yield (
        "memoised",
        sa.MemoisedRounds(
            permanent=two, instantaneous=two, users=9, rounds=3, same_participants=True
        ),
    )
    yield "threshold", sa.SampleAndThreshold(probability=0.25, threshold=4)
    leak = sa.Shuffler(batches=[40, 60], random_batches=True)
    yield "leak", sa.ShuffleRound(response, users=100, shuffler=leak)
    yield "noise", sa.NoiseMessages(categories=9, dummies=sa.Poisson(mean=5.0))
    yield (
        "augmented",
        sa.AugmentedShuffle(
            categories=9, keep=0.9, dummies=sa.NegativeBinomial(size=2.0, probability=0.1)
        ),
    )
    up = 1.0 / (1.0 + math.exp(-0.5))
    table = sa.LossTable(losses=np.array([-0.5, 0.5]), probabilities=np.array([1.0 - up, up]))
    yield "pld", sa.PldRound.from_tables(table)


def _formats() -> Iterator[tuple[str, Format]]:
    def plain(value: Any) -> Any:
        return json.loads(json.dumps(value))

    made = []
    for name, one in _rounds():
        made.append(one)
        yield f"round, {name}", Format(plain(one.to_dict()), type(one).from_dict)
        protocol = sa.Protocol([(one, 3)])
        yield f"protocol, {name}", Format(plain(protocol.to_dict()), sa.Protocol.from_dict)
    for one in made:
        randomizer = getattr(one, "randomizer", None)
        if randomizer is not None:
            yield (
                f"randomizer, {type(randomizer).__name__}",
                Format(plain(randomizer.to_dict()), randomizer_from_dict),
            )
    accountant = sa.FourierAccountant().compose(made[0], count=3).compose(made[3])
    yield (
        "accountant",
        Format(
            plain(accountant.state_dict()),
            lambda state: sa.FourierAccountant.from_state_dict(_resealed(state)),
        ),
    )
    ledger = sa.training.ShuffleLedger(
        sa.GeneralRandomizer(eps0=1.0), users=100, target_delta=1e-6, max_epsilon=5.0
    )
    ledger.step()
    ledger.step(users=90)
    yield (
        "ledger",
        Format(
            plain(ledger.state_dict()),
            lambda state: sa.training.ShuffleLedger.from_state_dict(_resealed(state)),
        ),
    )


FORMATS: dict[str, Format] = dict(_formats())
"""By name; certificates need an optional library and are made by `certificate_formats`."""


def certificate_formats() -> dict[str, Format]:
    """Those of certificates: as they are read, and as they are verified."""
    clones = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=50)
    steps = sa.RandomAllocation(sa.PureMechanism(epsilon=0.5), steps=4)
    found = {}
    for name, one in (("clones", clones), ("allocation", steps)):
        made = sa.FourierAccountant().compose(one, count=2).certificate(delta=1e-3)
        state = json.loads(made.to_json())
        found[f"certificate, {name}"] = Format(state, _certificate)
        found[f"verified, {name}"] = Format(state, _verified)
    return found


_NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 2**53, 2**53 + 1, 2**63, -(2**63), 10**30, 10**400, -(10**400)),
    *(0.0, -0.0, 0.5, 1.5, -0.5, 5e-324, 1e-300, 1e300, 1.7976931348623157e308),
    *(math.nan, math.inf, -math.inf),
)
_OTHERS: tuple[Any, ...] = (
    *(None, True, False, "", "1", "nan", "auto", "two\nlines", "x" * 10_000, "\x00", "é"),
    *([], {}, [[]], [None], {"": 0}, {"kind": "general"}, [0.5, "a"], [[1.0], [1.0, 2.0]]),
)


def values() -> st.SearchStrategy[Any]:
    """What nobody would write on purpose."""
    return st.one_of(
        st.sampled_from(_NUMBERS),
        st.sampled_from(_OTHERS),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.integers(2, 150).map(_deep),
    )


def _deep(levels: int) -> Any:
    found: Any = 1
    for level in range(levels):
        found = [found] if level % 2 else {"users": found}
    return found


def _places(state: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to all fields and entries; of long lists to the first and last ones."""
    if isinstance(state, dict):
        for key, value in state.items():
            yield (*path, key)
            yield from _places(value, (*path, key))
    elif isinstance(state, list):
        for i in range(len(state)) if len(state) <= 8 else (0, 1, len(state) - 1):
            yield (*path, i)
            yield from _places(state[i], (*path, i))


@st.composite
def mutations(draw: st.DrawFn, state: Any) -> Any:
    """The state, changed in one place or a few."""
    found = copy.deepcopy(state)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(found)) if isinstance(found, dict | list) else []
        if not places or draw(st.integers(0, 30)) == 0:
            return copy.deepcopy(draw(values()))
        *path, last = draw(st.sampled_from(places))
        holder = found
        for key in path:
            holder = holder[key]
        fate = draw(st.sampled_from(("value", "value", "value", "remove", "wrap", "swap", "add")))
        if fate == "value":
            holder[last] = copy.deepcopy(draw(values()))
        elif fate == "remove":
            del holder[last]
        elif fate == "wrap":
            holder[last] = draw(st.sampled_from((lambda x: [x], lambda x: {"users": x}, str)))(
                holder[last]
            )
        elif fate == "swap":
            key = draw(st.sampled_from(places))
            other: Any = found
            for step in key:
                other = other[step]
            holder[last] = copy.deepcopy(other)
        elif isinstance(holder, dict):
            holder[draw(st.sampled_from(("users", "schema", "x", "")))] = copy.deepcopy(
                draw(values())
            )
        else:
            holder.insert(0, copy.deepcopy(holder[last]))
    return found


@st.composite
def texts(draw: st.DrawFn, state: Any) -> str:
    """Its text, cut short or with characters changed."""
    text = json.dumps(state)
    if draw(st.booleans()):
        return text[: draw(st.integers(0, len(text) - 1))]
    at = draw(st.integers(0, len(text) - 1))
    return text[:at] + draw(st.text(max_size=3)) + text[at + draw(st.integers(0, 3)) :]


def refusal(read: Callable[[], Any]) -> str:
    """What is wrong with how it ends; nothing if that is in order."""
    start = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # loose brackets and floors are no fault
            warnings.simplefilter("ignore", UserWarning)
            read()
    except (ValueError, TypeError) as error:
        said = str(error)
        taken = time.process_time() - start
        if taken > SECONDS:
            return f"refused after {taken:.1f} s: {said:.200}"
        if not said.strip() or len(said.splitlines()) != 1 or len(said) > _SAID:
            return f"{type(error).__name__} of {len(said.splitlines())} lines: {said[:300]!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error!s:.200}"
    return ""


# ------------------------------------------------------------------------------ public callables

_GENERAL = sa.GeneralRandomizer(eps0=1.0)
_ROUND = sa.ShuffleRound(_GENERAL, users=10)
_RESPONSE = sa.RandomizedResponse(eps0=1.0, categories=3)
_MECHANISM = sa.PureMechanism(epsilon=0.5)

CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "GeneralRandomizer": (sa.GeneralRandomizer, {"eps0": 1.0, "interactive": False}),
    "RandomizedResponse": (sa.RandomizedResponse, {"eps0": 1.0, "categories": 3}),
    "BinaryRandomizedResponse": (sa.BinaryRandomizedResponse, {"eps0": 1.0}),
    "RAPPOR": (sa.RAPPOR, {"eps0": 1.0, "categories": 3}),
    "HadamardResponse": (sa.HadamardResponse, {"eps0": 1.0, "categories": 3}),
    "SubsetSelection": (sa.SubsetSelection, {"eps0": 1.0, "categories": 5, "size": 2}),
    "LocalHashing": (sa.LocalHashing, {"eps0": 1.0, "categories": 5}),
    "LaplaceRandomizer": (sa.LaplaceRandomizer, {"eps0": 1.0}),
    "GaussianRandomizer": (sa.GaussianRandomizer, {"sigma": 1.0}),
    "GaussianVectors": (sa.GaussianVectors, {"noise_multiplier": 1.0}),
    "ApproximateRandomizer": (sa.ApproximateRandomizer, {"eps0": 1.0, "delta0": 1e-6}),
    "DiscreteRandomizer": (sa.DiscreteRandomizer, {"channel": [[0.5, 0.5], [0.2, 0.8]]}),
    "Binomial": (sa.Binomial, {"trials": 5, "probability": 0.5}),
    "Poisson": (sa.Poisson, {"mean": 5.0}),
    "NegativeBinomial": (sa.NegativeBinomial, {"size": 2.0, "probability": 0.1}),
    "AsymmetricGeometric": (sa.AsymmetricGeometric, {"mode": 3, "left": 0.5, "right": 0.4}),
    "DiscreteGaussian": (sa.DiscreteGaussian, {"mode": 9, "sigma": 1.5}),
    "GaussianMechanism": (sa.GaussianMechanism, {"noise_multiplier": 1.0}),
    "LaplaceMechanism": (sa.LaplaceMechanism, {"scale": 1.0}),
    "PureMechanism": (sa.PureMechanism, {"epsilon": 1.0}),
    "ShuffleRound": (
        sa.ShuffleRound,
        {
            "randomizer": _RESPONSE,
            "users": 9,
            "others": {},
            "colluding": 2,
            "population": None,
            "reduction": "auto",
            "variant": None,
        },
    ),
    "RandomAllocation": (
        sa.RandomAllocation,
        {"mechanism": _MECHANISM, "steps": 9, "selected": 1, "passes": 1, "released": None},
    ),
    "ShuffledBatches": (sa.ShuffledBatches, {"noise_multiplier": 1.0, "steps": 9, "passes": 1}),
    "PoissonSampled": (sa.PoissonSampled, {"mechanism": _MECHANISM, "rate": 0.1}),
    "NoiseMessages": (
        sa.NoiseMessages,
        {"categories": 9, "dummies": sa.Poisson(mean=5.0), "honest": 1.0},
    ),
    "AugmentedShuffle": (
        sa.AugmentedShuffle,
        {"categories": 9, "keep": 0.9, "dummies": sa.Poisson(mean=5.0)},
    ),
    "Protocol": (sa.Protocol, {"rounds": [(_ROUND, 2)]}),
    "FourierAccountant": (sa.FourierAccountant, {"tolerance": 1e-3, "memory_limit": 2**30}),
    "compose": (
        lambda **given: sa.FourierAccountant().compose(given["event"], count=given["count"]),
        {"event": _ROUND, "count": 2},
    ),
    "epsilon": (sa.epsilon, {"round": _ROUND, "delta": 1e-3, "rounds": 2, "tolerance": 1e-2}),
    "delta": (sa.delta, {"round": _ROUND, "epsilon": 0.5, "rounds": 2, "tolerance": 1e-2}),
    "attained_epsilon": (
        sa.attained_epsilon,
        {
            "round": sa.ShuffledBatches(noise_multiplier=1.0, steps=4),
            "delta": 1e-3,
            "rounds": 1,
        },
    ),
    "min_noise_multiplier": (
        sa.min_noise_multiplier,
        {"sampling": "poisson", "steps": 4, "epochs": 1, "target_epsilon": 3.0, "delta": 1e-3},
    ),
    "PrivacyFilter": (sa.training.PrivacyFilter, {"epsilon": 3.0, "delta": 1e-6, "order": 4.0}),
    "ShuffleLedger": (
        sa.training.ShuffleLedger,
        {
            "randomizer": _GENERAL,
            "users": 100,
            "population": None,
            "target_delta": 1e-6,
            "max_epsilon": 5.0,
            "tolerance": 1e-3,
        },
    ),
    "estimate_from": (
        _RESPONSE.estimate_from,
        {"tally": np.array([3, 2, 1]), "users": 6},
    ),
    "design.frequency": (
        sa.design.frequency,
        {"users": 1000, "categories": 4, "target_epsilon": 1.0, "delta": 1e-6, "rounds": 1},
    ),
    "design.mean": (
        sa.design.mean,
        {"users": 1000, "dimension": 4, "target_epsilon": 1.0, "delta": 1e-6},
    ),
    "verify": (sa.certificates.verify, {"certificate": 3}),
    "from_json": (sa.certificates.Certificate.from_json, {"text": "{}"}),
}
"""Public callables with usual arguments; hostile ones of the other modules are in `hostile`."""

# Their answers may take long: they are asked what none of their arguments may be.
LONG = frozenset(
    {"epsilon", "delta", "attained_epsilon", "min_noise_multiplier", "design.frequency"}
    | {"design.mean"}
)
_NEVER: tuple[Any, ...] = (
    *(math.nan, -math.inf, -1.0, -(10**400), "x", "two\nlines", {"a": 1}, 1j, [], b"", print),
)


def arguments(name: str) -> st.SearchStrategy[Any]:
    """Hostile values for an argument of the call of that name."""
    if name in LONG:
        return st.sampled_from(_NEVER)
    return st.one_of(values(), st.sampled_from(_NEVER))
