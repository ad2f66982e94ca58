"""Questions that any revision of the package can be asked, and its answers as plain numbers.

A file of its own that needs nothing but the public names of the first release, so that it runs
with whichever revision comes first on ``PYTHONPATH``: ``python -P questions.py REFS`` prints one
line of JSON for each answer. REFS is the folder of verified values (``tests/refs``); the random
questions are the same wherever the file runs, for their seed is fixed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import shuffle_accountant as sa

SEED, RANDOM = 13, 200
# Seconds of the processor's time for one question; what takes longer is not compared.
LONGEST = 20.0

Generator = np.random.Generator
# A few words, and what to call.
Question = tuple[str, Callable[[], Any]]


# ------------------------------------------------------------------------------ verified values


def of_references(folder: Path) -> Iterator[tuple[str, Question]]:
    """The questions of every file of verified values, each with its kind."""
    for path in sorted(folder.glob("*.json")):
        ask = _FILES.get(path.stem)
        if ask is None:
            raise ValueError(f"no questions are known for {path.name}")
        for entry in json.loads(path.read_text(encoding="utf-8")):
            try:
                call = ask(entry)
            except (AttributeError, TypeError) as missing:
                call = functools.partial(_refuse, missing)  # an older revision has no such thing
            if call is not None:
                yield f"refs/{path.name}", (_short(entry), call)


def _refuse(missing: Exception) -> None:
    raise missing


def _short(entry: Mapping[str, Any]) -> str:
    left_out = ("value", "rtol", "atol", "abs_tol", "method")
    return ", ".join(f"{k}={v!s:.40}" for k, v in entry.items() if k not in left_out)


def _privacy_loss(entry: Mapping[str, Any]) -> Callable[[], Any]:
    query = {name: entry[name] for name in ("delta", "epsilon") if name in entry}
    parts = entry.get("parts", [entry])

    def ask() -> Any:
        accountant = sa.FourierAccountant()
        for part in parts:
            accountant.compose(_referenced(entry["kind"], part), count=part["rounds"])
        return getattr(accountant, entry["query"])(**query)

    return ask


def _referenced(kind: str, part: Mapping[str, Any]) -> Any:
    place = {"users": part["users"], "population": part.get("population")}
    if not kind.startswith("krr"):
        return sa.ShuffleRound(sa.GeneralRandomizer(eps0=part["eps0"]), **place)
    response = sa.RandomizedResponse.from_gamma(categories=part["categories"], gamma=part["gamma"])
    if kind == "krr_weak":
        return sa.ShuffleRound(response, reduction="blanket", **place)
    return sa.ShuffleRound(response, reduction="strong", variant="exact", **place)


def _reidentification(entry: Mapping[str, Any]) -> Callable[[], Any]:
    given = _given(entry)
    if entry["fn"] != "bound":
        return functools.partial(getattr(sa.leakage.reidentification, entry["fn"]), **given)
    response = sa.RandomizedResponse(categories=given.pop("categories"), eps0=given.pop("eps0"))
    return functools.partial(sa.leakage.reidentification.bound, response, **given)


def _mutual_information(entry: Mapping[str, Any]) -> Callable[[], Any]:
    given = _given(entry)
    if entry["fn"] != "input_bound":
        return functools.partial(getattr(sa.leakage.mutual_information, entry["fn"]), **given)
    response = sa.RandomizedResponse(categories=given.pop("categories"), eps0=given.pop("eps0"))
    return functools.partial(sa.leakage.mutual_information.input_bound, response, **given)


def _qif(entry: Mapping[str, Any]) -> Callable[[], Any]:
    return functools.partial(getattr(sa.leakage.qif, entry["fn"]), **_given(entry))


def _given(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in entry.items() if k not in ("fn", "value", "atol", "rtol")}


def _dsigma(entry: Mapping[str, Any]) -> Callable[[], Any] | None:
    name, given = entry["name"], entry["inputs"]
    order = sa.order
    if name.startswith(("width", "A10_width", "kendall_sens", "sensitivity_exact", "A10_exact")):
        return functools.partial(_sensitivity, name, given)
    calls: dict[str, Callable[[], Any]] = {
        "kendall_log_psi": lambda: order.MallowsKendall(given["n"], given["theta"]).log_psi(),
        "hamming_log_psi": lambda: order.MallowsHamming(given["n"], given["theta"]).log_psi(),
        "kendall_mean_distance": lambda: order.MallowsKendall(
            given["n"], given["theta"]
        ).mean_distance(),
        "hamming_preservation_delta": lambda: order.preservation_delta(
            given["n"], given["l"], Fraction(given["eta"]), given["theta"], "hamming"
        ),
        "hamming_preservation_log10_delta": lambda: (
            order.preservation_delta(
                given["n"], given["l"], Fraction(given["eta"]), given["theta"], "hamming"
            ).log10
        ),
        "reid_odds_paper": lambda: order.reidentification_bound(**given, method="paper"),
        "reid_odds_fullswap": lambda: order.reidentification_bound(**given, method="full swaps"),
        "reid_odds_lp": lambda: order.reidentification_bound(**given, method="best"),
        "bfs_order_A10": lambda: order.reference_order(
            order.Groups.from_lists(
                [
                    [int(user) - 1, *(k - 1 for k in near)]
                    for user, near in given["adjacency"].items()
                ]
            ),
            "bfs",
        ),
    }
    # the others are definitions that need no call
    return calls.get(name)


def _sensitivity(name: str, given: Mapping[str, Any]) -> Any:
    if "sigma0" in given:
        sigma0, group = np.array(given["sigma0"]) - 1, [user - 1 for user in given["G"]]
    else:
        sigma0, group = np.arange(given["n"]), list(given["positions_0based"])
    own = [group if user in group else [user] for user in range(len(sigma0))]
    groups = sa.order.Groups.from_lists(own)
    if "width" in name:
        return sa.order.group_width(sigma0, groups)
    distance = next((d for d in ("cayley", "spearman") if d in name), "kendall")
    kind = "bound" if "bound" in name else "exact"
    return sa.order.sensitivity(sigma0, groups, distance=distance, kind=kind)


def _allocation(entry: Mapping[str, Any]) -> Callable[[], Any] | None:
    if entry["released"] is not None and entry.get("passes", 1) > 1:
        return None  # refused

    def ask() -> Any:
        pure = entry["kind"] == "pure"
        epoch = sa.RandomAllocation(
            sa.PureMechanism(epsilon=entry["eps0"])
            if pure
            else sa.GaussianMechanism(noise_multiplier=entry["noise_multiplier"]),
            steps=entry["steps"],
            selected=entry.get("selected", 1),
            released=entry["released"],
            passes=entry.get("passes", 1),
        )
        return sa.delta(epoch, epsilon=entry["epsilon"], rounds=entry.get("rounds", 1))

    return ask


def _shuffled(entry: Mapping[str, Any]) -> Callable[[], Any] | None:
    if entry["kind"] != "lower":
        return None  # a step on the way to an answer
    batches = sa.ShuffledBatches(noise_multiplier=entry["noise_multiplier"], steps=entry["steps"])
    return functools.partial(sa.delta, batches, epsilon=entry["epsilon"])


def _messages(entry: Mapping[str, Any]) -> Callable[[], Any]:
    names = {
        "NegativeBinomial": ("size", "probability"),
        "Poisson": ("mean",),
        "Binomial": ("trials", "probability"),
        "AsymmetricGeometric": ("mode", "left", "right"),
    }[entry["dummies"]]

    def ask() -> Any:
        dummies = getattr(sa, entry["dummies"])(**{name: entry[name] for name in names})
        if entry["kind"] == "NoiseMessages":
            one: Any = sa.NoiseMessages(categories=5, dummies=dummies, honest=entry["honest"])
        else:
            one = sa.AugmentedShuffle(categories=5, keep=entry["keep"], dummies=dummies)
        return sa.delta(one, epsilon=entry["epsilon"], rounds=entry["rounds"])

    return ask


def _crowds(entry: Mapping[str, Any]) -> Callable[[], Any]:
    def one() -> sa.ShuffleRound:
        if entry["kind"] == "zero_out":
            if entry["delta0"] > 0.0:
                hidden: Any = sa.ApproximateRandomizer(eps0=entry["eps0"], delta0=entry["delta0"])
            else:
                hidden = sa.GeneralRandomizer(entry["eps0"], adjacency=sa.Adjacency.ZERO_OUT)
            return sa.ShuffleRound(hidden, users=entry["users"])
        response = functools.partial(sa.RandomizedResponse, categories=entry["categories"])
        own = response(eps0=entry["eps0"])
        if entry["kind"] == "participation":
            taking = sa.Binomial(trials=entry["trials"], probability=entry["probability"])
            return sa.ShuffleRound(own, users=taking)
        others = {response(eps0=eps0): users for eps0, users in entry["others"]}
        return sa.ShuffleRound(
            own, users=entry["users"], others=others, colluding=entry["colluding"]
        )

    return lambda: sa.delta(one(), epsilon=entry["epsilon"])


def _group(entry: Mapping[str, Any]) -> Callable[[], Any]:
    if entry["base"] == "gaussian":
        step = sa.GaussianMechanism(noise_multiplier=1.0 / entry["mu"])
        one, rounds = sa.RandomAllocation(step, steps=1), 1
    else:
        randomizer = sa.GeneralRandomizer(eps0=entry["eps0"])
        one, rounds = sa.ShuffleRound(randomizer, users=entry["users"]), entry["rounds"]
    return functools.partial(
        sa.epsilon, one, delta=entry["delta"], rounds=rounds, group=entry["group"]
    )


def _user_messages(entry: Mapping[str, Any]) -> Callable[[], Any]:
    eps0 = entry["eps0"]
    categories = {"General": 0, "8-RR": 8}.get(entry["randomizer"], 16)
    known = categories and sa.RandomizedResponse(categories=categories, eps0=eps0)
    one = sa.ShuffleRound(
        known or sa.GeneralRandomizer(eps0=eps0),
        users=entry["users"],
        messages_per_user=entry["messages_per_user"],
    )
    return functools.partial(sa.epsilon, one, delta=entry["delta"])


def _training(entry: Mapping[str, Any]) -> Callable[[], Any]:
    step, rounds = sa.GaussianMechanism(noise_multiplier=entry["noise_multiplier"]), entry["steps"]
    if "q" in entry:
        size = round(entry["q"] * 10**5)
        one: Any = sa.FixedSizeSampled(step, size=size, population=10**5)
    elif "rate" in entry:
        one = sa.PoissonSampled(step, rate=entry["rate"], records_per_user=entry["records"])
    else:
        one = sa.RandomAllocation(step, steps=rounds, records_per_user=entry["records"])
        rounds = 1
    return functools.partial(sa.epsilon, one, delta=entry["delta"], rounds=rounds)


def _correlated(entry: Mapping[str, Any]) -> Callable[[], Any] | None:
    case, delta = entry["case"], entry["delta"]
    if case.startswith("cyclic"):
        step = sa.GaussianMechanism(noise_multiplier=entry["sigma"])
        one: Any = sa.CyclicPoisson(step, rate=entry["q"], cycles=entry["epochs"])
        return functools.partial(sa.epsilon, one, delta=delta)
    if "bands" in entry and "untruncated" not in case:
        bands = entry["bands"]
        geometric = [0.5**k for k in range(bands)]
        column = geometric if case.startswith("geom") else sa.sqrt_coefficients(bands=bands)
        one = sa.MatrixMechanism(
            coefficients=column,
            noise_multiplier=entry["sigma"],
            bins=entry["bins"],
            epochs=entry["epochs"],
        )
        return functools.partial(sa.epsilon, one, delta=delta)
    if case.startswith("binary tree"):
        one = sa.MatrixMechanism(tree=True, noise_multiplier=entry["sigma"], bins=entry["bins"])
        return functools.partial(sa.epsilon, one, delta=delta)
    if case.startswith("unequal"):
        count, values = (25, (1.0, 1.25, 1.5, 2.0)) if "25x" in case else (50, (1.5, 3.0))
        noise = [value for value in values for _ in range(count)]
        step = sa.GaussianMechanism(noise_multiplier=noise)
        return functools.partial(
            sa.epsilon, sa.RandomAllocation(step, steps=len(noise)), delta=delta
        )
    return None


def _leaky(entry: Mapping[str, Any]) -> Callable[[], Any]:
    randomizer, users = sa.GeneralRandomizer(eps0=entry["eps0"]), entry["users"]
    if "exposure" in entry:
        leak = sa.Shuffler(exposure=entry["exposure"], everyone=False)
        one = sa.ShuffleRound(randomizer, users=users, shuffler=leak)
        return functools.partial(one.epsilon, delta=entry["delta"])
    weights = np.arange(1.0, users + 1.0) if entry["weights"] == "linear" else np.ones(users)
    leak = sa.Shuffler(weights=weights / weights.sum())
    one = sa.ShuffleRound(randomizer, users=users, shuffler=leak)
    return functools.partial(one.delta, epsilon=entry["epsilon"])


def _threshold(entry: Mapping[str, Any]) -> Callable[[], Any]:
    one = sa.SampleAndThreshold(probability=entry["p"], threshold=entry["K"])
    if "epsilon" in entry and entry["kind"] == "single":
        return functools.partial(one.delta, epsilon=entry["epsilon"])
    return functools.partial(sa.epsilon, one, delta=entry["delta"], rounds=entry["rounds"])


def _memoised(entry: Mapping[str, Any]) -> Callable[[], Any]:
    one = sa.MemoisedRounds(
        permanent=sa.RandomizedResponse(categories=2, eps0=entry["eps_permanent"]),
        instantaneous=sa.RandomizedResponse(categories=2, eps0=entry["eps_instantaneous"]),
        users=entry["users"],
        rounds=entry["rounds"],
        same_participants=True,
    )
    return functools.partial(sa.epsilon, one, delta=entry["delta"])


_FILES: dict[str, Callable[[Mapping[str, Any]], Callable[[], Any] | None]] = {
    "allocation": _allocation,
    "shuffled": _shuffled,
    "privacy_loss": _privacy_loss,
    "reidentification": _reidentification,
    "mutual_information": _mutual_information,
    "qif": _qif,
    "dsigma": _dsigma,
    "messages": _messages,
    "crowds": _crowds,
    "correlated": _correlated,
    "group": _group,
    "leaky": _leaky,
    "memoised": _memoised,
    "sample_and_threshold": _threshold,
    "user_allocation": _training,
    "user_dpsgd_poisson": _training,
    "user_fixed_size": _training,
    "user_messages": _user_messages,
}


# ----------------------------------------------------------------------------- random questions


def at_random(seed: int = SEED, many: int = RANDOM) -> Iterator[tuple[str, Question]]:
    """Questions of all kinds in turn, each with its kind."""
    rng = np.random.default_rng(seed)
    for kind in itertools.islice(itertools.cycle(_KINDS), many):
        yield kind, _KINDS[kind](rng)


def _spread(rng: Generator, least: float, most: float) -> float:
    return float(f"{math.exp(rng.uniform(math.log(least), math.log(most))):.6g}")


def _count(rng: Generator, least: float, most: float) -> int:
    return round(_spread(rng, least, most))


def _delta(rng: Generator) -> float:
    return float(rng.choice([1e-2, 1e-4, 1e-6, 1e-9, 1e-15]))


def _law(rng: Generator, letters: int) -> list[float]:
    weights = rng.integers(1, 100, size=letters)
    return [float(weight / weights.sum()) for weight in weights]


def _channel(rng: Generator) -> Any:
    letters, inputs = int(rng.integers(2, 5)), int(rng.integers(2, 4))
    return sa.DiscreteRandomizer([_law(rng, letters) for _ in range(inputs)])


def _finite(rng: Generator) -> Any:
    """A randomizer whose messages can be listed."""
    eps0, k = _spread(rng, 0.1, 4.0), int(rng.integers(2, 8))
    makers: list[Callable[[], Any]] = [
        lambda: sa.RandomizedResponse(categories=k, eps0=eps0),
        lambda: sa.BinaryRandomizedResponse(eps0=eps0),
        lambda: sa.RAPPOR(categories=k, eps0=eps0),
        lambda: sa.SubsetSelection(categories=k + 1, eps0=eps0),
        lambda: sa.LocalHashing(categories=k, eps0=eps0),
        lambda: sa.HadamardResponse(categories=k, eps0=eps0),
        lambda: _channel(rng),
    ]
    return makers[int(rng.integers(len(makers)))]()


def _any(rng: Generator) -> Any:
    """Any randomizer."""
    eps0, d = _spread(rng, 0.1, 4.0), int(rng.integers(2, 500))
    training = sa.training
    makers: list[Callable[[], Any]] = [
        lambda: sa.GeneralRandomizer(eps0=eps0),
        lambda: sa.GeneralRandomizer(eps0=eps0, interactive=True),
        lambda: sa.LaplaceRandomizer(eps0=eps0),
        lambda: sa.GaussianRandomizer(sigma=_spread(rng, 0.5, 5.0)),
        lambda: training.PrivUnit(dimension=d, eps0=eps0),
        lambda: training.DuchiL2(dimension=d, eps0=eps0),
        lambda: training.DuchiLInf(dimension=d, eps0=eps0),
        lambda: training.SampledCoordinates(dimension=d, eps0=eps0),
        *[lambda: _finite(rng)] * 4,
    ]
    return makers[int(rng.integers(len(makers)))]()


def _reductions(randomizer: Any) -> list[str]:
    """Those that every revision has for it."""
    if isinstance(randomizer, sa.GaussianRandomizer):
        return ["auto", "blanket"]
    exact = hasattr(randomizer, "channel") or isinstance(randomizer, sa.LaplaceRandomizer)
    return ["auto", "clones", "blanket"] if exact else ["auto", "clones"]


def _round(rng: Generator, *, most: float = 1e7, sampled: bool = False) -> Any:
    randomizer = _any(rng)
    users = _count(rng, 2, most)
    population = users * _count(rng, 2, 1000) if sampled else None
    reduction = str(rng.choice(_reductions(randomizer)))
    return sa.ShuffleRound(randomizer, users=users, population=population, reduction=reduction)


def _six_digits(epsilon: float) -> float:
    """An argument that is the same whatever the last digits of an answer are; 1 for infinity."""
    return float(f"{epsilon:.6g}") if epsilon < math.inf else 1.0


def _query(rng: Generator, one: Any, rounds: int = 1) -> Question:
    """Epsilon at some delta, or delta at the epsilon of another one."""
    rough, fine = _delta(rng), _delta(rng)
    if rng.random() < 0.5:
        text = f"epsilon({one!r}, delta={fine}, rounds={rounds})"
        return text, lambda: sa.epsilon(one, delta=fine, rounds=rounds)
    text = f"delta({one!r}, epsilon=that of {rough}, rounds={rounds})"

    def ask() -> Any:
        asked = _six_digits(sa.epsilon(one, delta=rough, rounds=rounds).lower)
        return sa.delta(one, epsilon=asked, rounds=rounds)

    return text, ask


def _single(rng: Generator) -> Question:
    return _query(rng, _round(rng))


def _sampled(rng: Generator) -> Question:
    return _query(rng, _round(rng, most=1e4, sampled=True), int(rng.choice([1, 1, 2, 30, 1000])))


def _composed(rng: Generator) -> Question:
    return _query(rng, _round(rng, most=1e6), _count(rng, 2, 300))


def _strong(rng: Generator, rounds: bool = False) -> Question:
    response = sa.RandomizedResponse(categories=int(rng.integers(2, 9)), eps0=_spread(rng, 0.2, 4))
    variant = ("exact", "paper", "tail")[int(rng.integers(3))]
    users = _count(rng, 10, 1e5)
    one = sa.ShuffleRound(response, users=users, reduction="strong", variant=variant)
    return _query(rng, one, _count(rng, 2, 30) if rounds else 1)


def _mixed(rng: Generator) -> Question:
    rounds = [(_round(rng, most=1e5), _count(rng, 1, 20)) for _ in range(int(rng.integers(2, 4)))]
    delta = _delta(rng)

    def ask() -> Any:
        accountant = sa.FourierAccountant(memory_limit=2**26)
        for one, count in rounds:
            accountant.compose(one, count=count)
        found = accountant.epsilon(delta=delta)
        middle = _six_digits(found.lower)
        profile = accountant.profile([0.5 * middle, middle, 1.25 * middle])
        resumed = sa.FourierAccountant.from_state_dict(
            json.loads(json.dumps(accountant.state_dict()))
        )
        assert resumed.epsilon(delta=delta) == found
        pairs = zip(profile.lower, profile.upper, strict=True)
        return [found, *(sa.Bracket(lower=a, upper=b, reduction="profile") for a, b in pairs)]

    return f"{rounds!r} at delta={delta}, and the profile", ask


def _table(rng: Generator) -> Question:
    scale, rounds, delta = _spread(rng, 1.0, 20.0), _count(rng, 1, 50), _delta(rng)
    noise = ("laplace", "gaussian")[int(rng.integers(2))]
    one = _round(rng, most=1e5)

    def ask() -> Any:
        from dp_accounting.pld import privacy_loss_distribution

        made = getattr(privacy_loss_distribution, f"from_{noise}_mechanism")(
            scale, value_discretization_interval=1e-3
        )
        alone = sa.FourierAccountant().compose(sa.PldRound(made), count=rounds)
        beside = sa.FourierAccountant().compose(sa.PldRound(made)).compose(one)
        return [alone.epsilon(delta=max(delta, 1e-9)), beside.epsilon(delta=max(delta, 1e-9))]

    return f"{rounds} times {noise} noise of {scale}, and once with {one!r} at delta={delta}", ask


def _attained(rng: Generator) -> Question:
    randomizer, users = _finite(rng), _count(rng, 1, 500)
    population = users * _count(rng, 2, 20) if rng.random() < 0.3 else None
    one = sa.ShuffleRound(randomizer, users=users, population=population)
    epsilon = _spread(rng, 0.01, 1.0)
    return f"{one!r}.attained(epsilon={epsilon})", lambda: one.attained(epsilon=epsilon)


def _pair(rng: Generator) -> Question:
    one = _round(rng, most=1e5)

    def ask() -> Any:
        pair = one.target_among_decoys()
        return [getattr(pair, name, None) for name in ("p0", "p1", "q", "n") if name != "n"]

    return f"{one!r}.target_among_decoys()", ask


def _baseline(rng: Generator) -> Question:
    b = sa.baselines
    eps0, users, delta = _spread(rng, 0.1, 3.0), _count(rng, 100, 1e7), _delta(rng)
    k, rounds, epsilon = int(rng.integers(2, 20)), _count(rng, 1, 500), _spread(rng, 0.05, 2.0)
    plain = {"eps0": eps0, "users": users}
    sampled = {**plain, "population": users * _count(rng, 1, 100)}
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)
    calls: dict[str, Callable[[], Any]] = {
        "clones_closed_form": lambda: b.clones_closed_form.epsilon(**plain, delta=delta),
        "strong_clones": lambda: b.strong_clones_closed_form.epsilon(**plain, delta=delta),
        "erlingsson": lambda: b.erlingsson.epsilon(**plain, delta=delta),
        "hoeffding": lambda: b.blanket_hoeffding.epsilon(**plain, delta=delta),
        "hoeffding, delta": lambda: b.blanket_hoeffding.delta(**plain, epsilon=0.3 * eps0),
        "bennett": lambda: b.blanket_bennett.epsilon(**plain, delta=delta, categories=k),
        "bennett, delta": lambda: b.blanket_bennett.delta(**plain, epsilon=0.3 * eps0),
        "specialised": lambda: b.specialised_clones.epsilon(**plain, categories=k, delta=delta),
        "girgis": lambda: b.girgis.epsilon(**sampled, rounds=rounds, delta=delta),
        "rdp": lambda: b.rdp.epsilon(one, rounds=rounds, delta=delta),
        "rdp, delta": lambda: b.rdp.delta(one, rounds=rounds, epsilon=epsilon),
        "rdp, published": lambda: b.rdp.epsilon_as_published(one, rounds=rounds, delta=delta),
        "strong_composition": lambda: b.strong_composition.epsilon(
            eps1=eps0, delta1=1e-9, rounds=rounds, delta=max(delta, 1e-6)
        ),
    }
    name = list(calls)[int(rng.integers(len(calls)))]
    words = f"{sampled}, rounds={rounds}, delta={delta}, epsilon={epsilon}, categories={k}"
    return f"{name}: {words}", calls[name]


def _naming(rng: Generator) -> Question:
    reid, letters = sa.leakage.reidentification, int(rng.integers(2, 6))
    p, q = _law(rng, letters), _law(rng, letters)
    users, randomizer, finite = _count(rng, 2, 1e5), _any(rng), _finite(rng)
    guesses = int(rng.integers(1, min(users, 5)))
    calls: dict[str, Callable[[], Any]] = {
        "success_probability": lambda: reid.success_probability(p, q, users=users, guesses=guesses),
        "advantage_bounds": lambda: reid.advantage_bounds(p, q, users=users),
        "bound": lambda: reid.bound(randomizer, users=users, guesses=guesses),
        "bound of clones": lambda: reid.bound(finite, users=users, method="clones"),
        "bracket": lambda: reid.bracket(finite, users=min(users, 300)),
        "sup_ratio": lambda: reid.sup_ratio(finite),
        "laplace_success": lambda: reid.laplace_success(_spread(rng, 0.1, 3.0), users=users),
        "gaussian_success": lambda: reid.gaussian_success(_spread(rng, 0.1, 3.0), users=users),
    }
    name = list(calls)[int(rng.integers(len(calls)))]
    text = f"{name}: p={p}, q={q}, {randomizer!r}, {finite!r}, users={users}, guesses={guesses}"
    return text, calls[name]


def _information(rng: Generator) -> Question:
    mi, letters = sa.leakage.mutual_information, int(rng.integers(2, 6))
    p, q = _law(rng, letters), _law(rng, letters)
    users, finite, eps0 = _count(rng, 2, 1e6), _finite(rng), _spread(rng, 0.1, 4.0)
    k = int(rng.integers(2, 8))
    calls: dict[str, Callable[[], Any]] = {
        "position": lambda: mi.position(p, q, users=users),
        "message": lambda: mi.message(p, q, users=users),
        "input_bound": lambda: mi.input_bound(finite, users=users),
        "position_bounds": lambda: mi.position_bounds(finite, users=users),
        "universal_bounds": lambda: mi.universal_bounds(eps0=eps0, users=users),
        "clones_message": lambda: mi.clones_message(p, eps0=eps0, users=users),
        "closed_form": lambda: mi.closed_form(p, q, users=users),
        "expansions": lambda: [mi.position_expansion(p, q), mi.message_expansion(p, q)],
        "optimal_decoy": lambda: mi.optimal_decoy(p),
        "response_constants": lambda: mi.response_constants(categories=k, eps0=eps0),
        "heterogeneous": lambda: mi.heterogeneous_message([p, q, p, q]),
    }
    name = list(calls)[int(rng.integers(len(calls)))]
    return f"{name}: p={p}, q={q}, {finite!r}, users={users}, eps0={eps0}", calls[name]


def _flow(rng: Generator) -> Question:
    qif, users, k = sa.leakage.qif, _count(rng, 2, 1e6), int(rng.integers(2, 30))
    few, p, law = int(rng.integers(2, 5)), float(rng.uniform(0.05, 1.0)), _law(rng, 3)
    channel = [_law(rng, 3) for _ in range(2)]
    small = {"users": few, "categories": 2}
    calls: dict[str, Callable[[], Any]] = {
        "shuffle": lambda: qif.posterior_vulnerability_shuffle(users=users, categories=k),
        "krr": lambda: qif.posterior_vulnerability_krr(categories=k, p=p),
        "krr_shuffle": lambda: qif.posterior_vulnerability_krr_shuffle(
            users=users, categories=k, p=p
        ),
        "shuffle_of": lambda: qif.posterior_vulnerability_shuffle_of(law, users=min(users, 2000)),
        "local_shuffle": lambda: qif.posterior_vulnerability_local_shuffle(channel, users=few),
        "all_but_one": lambda: qif.all_but_one_vulnerability(
            users=users, p=max(p, 0.5), known=users // 3
        ),
        "maximum_load": lambda: qif.expected_maximum_load(users=users, categories=k),
        "minimum_load": lambda: qif.expected_minimum_load(users=users, categories=k),
        "channels": lambda: (
            qif.krr_channel(**small, p=p) @ qif.reduced_shuffle_channel(**small)
        ).posterior_vulnerability(gain=qif.single_target_gain(**small)),
        "capacity": lambda: qif.reduced_local_channel(channel, users=few).min_capacity(),
    }
    name = list(calls)[int(rng.integers(len(calls)))]
    return f"{name}: users={users}, categories={k}, p={p}, few={few}, law={law}", calls[name]


def _report(rng: Generator) -> Question:
    rounds, delta = _count(rng, 1, 20), _delta(rng)
    one = _round(rng, most=1e4, sampled=bool(rng.random() < 0.3))

    def ask() -> Any:
        return sa.report(sa.FourierAccountant().compose(one, count=rounds), delta=delta)

    return f"report: {rounds} times {one!r} at delta={delta}", ask


def _order(rng: Generator) -> Question:
    order, n = sa.order, int(rng.integers(5, 300))
    places, alpha, theta = rng.random(n), _spread(rng, 0.1, 5.0), _spread(rng, 0.05, 3.0)
    distance = str(rng.choice(["kendall", "hamming", "cayley"]))
    groups = order.Groups.from_scalar(places, 0.05)
    few = order.Groups.from_scalar(places[:5], 0.3)
    law = {"kendall": "MallowsKendall", "hamming": "MallowsHamming", "cayley": "MallowsCayley"}
    size = int(rng.integers(1, n))
    seed = int(rng.integers(2**31))

    def shuffled() -> Any:
        shuffler = order.DSigmaShuffler(groups, alpha, distance=distance)
        released = shuffler.permutation(np.random.default_rng(seed))
        return [shuffler.sensitivity, shuffler.theta, shuffler.alpha, released]

    def mallows() -> Any:
        made = getattr(order, law[distance])(n, theta)
        return [made.log_psi(), made.mean_distance(), made.var_distance()]

    calls: dict[str, Callable[[], Any]] = {
        "shuffler": shuffled,
        "mallows": mallows,
        "reference orders": lambda: [
            order.sensitivity(order.reference_order(groups, m), groups, distance=distance)
            for m in ("bfs", "rcm", "rcm2", "sort")
        ],
        "preservation": lambda: order.preservation_delta(n, size, 0.5, theta, "hamming"),
        "kendall preservation": lambda: order.preservation_delta(
            n, size, 0.5, theta, "kendall", interval=(0, size)
        ),
        "pointing out": lambda: order.reidentification_bound(n, min(n, 5), theta, alpha),
        "odds": lambda: [
            order.posterior_odds_bound(alpha),
            order.compose([alpha, theta]),
            order.verify_alpha(few, np.arange(5), theta, distance=distance),
        ],
    }
    name = list(calls)[int(rng.integers(len(calls)))]
    text = f"{name}: {n} users, {distance}, alpha={alpha}, theta={theta}, size={size}"

    def ask() -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", order.OrderWarning)
            return calls[name]()

    return text, ask


def _calibration(rng: Generator) -> Question:
    users, rounds, delta = _count(rng, 100, 1e6), _count(rng, 1, 10), max(_delta(rng), 1e-9)
    eps0, target, k = _spread(rng, 0.5, 3.0), _spread(rng, 0.3, 2.0), int(rng.integers(2, 30))
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=users)
    goal = {"target_epsilon": target, "delta": delta}
    calls: dict[str, Callable[[], Any]] = {
        "max_eps0": lambda: sa.max_eps0(users=users, rounds=rounds, **goal),
        "max_eps0 sampled": lambda: sa.max_eps0(
            users=users, rounds=rounds, population=10 * users, **goal
        ),
        "max_eps0 of a response": lambda: sa.max_eps0(
            users=users,
            rounds=rounds,
            randomizer=functools.partial(sa.RandomizedResponse, categories=k),
            **goal,
        ),
        "min_users": lambda: sa.min_users(eps0=eps0, rounds=rounds, **goal),
        "max_rounds": lambda: sa.max_rounds(one, **goal),
    }
    name = list(calls)[int(rng.integers(len(calls)))]
    return f"{name}: {one!r}, rounds={rounds}, {goal}, categories={k}", calls[name]


def _ledger(rng: Generator) -> Question:
    randomizer, users, steps = _any(rng), _count(rng, 100, 1e4), _count(rng, 1, 500)
    population = users * 10 if rng.random() < 0.5 else None

    def ask() -> Any:
        ledger = sa.training.ShuffleLedger(randomizer, users=users, population=population)
        ledger.step(steps)
        return [ledger.epsilon(delta=1e-6), ledger.would_exceed(epsilon=1.0, delta=1e-6)]

    return f"{steps} steps of {randomizer!r}, users={users}, population={population}", ask


_KINDS: dict[str, Callable[[Generator], Question]] = {
    "one round": _single,
    "one round, strong": _strong,
    "one sampled round or more": _sampled,
    "composed": _composed,
    "composed, strong": functools.partial(_strong, rounds=True),
    "different rounds, resumed": _mixed,
    "losses of dp_accounting": _table,
    "attained": _attained,
    "the pair of a round": _pair,
    "published bounds": _baseline,
    "published bounds, again": _baseline,
    "re-identification": _naming,
    "mutual information": _information,
    "information flow": _flow,
    "report": _report,
    "order": _order,
    "calibration": _calibration,
    "ledger": _ledger,
}


# -------------------------------------------------------------------------------------- answers


def plain(answer: Any) -> list[list[Any]]:
    """An answer as a list of [name, number] and [name, lower, upper]."""
    return list(_plain("", answer))


def _plain(name: str, answer: Any) -> Iterator[list[Any]]:
    if answer is None or isinstance(answer, str):
        return
    lower, upper = (getattr(answer, end, None) for end in ("lower", "upper"))
    if isinstance(lower, float) and isinstance(upper, float):
        yield [name, lower, upper]
    elif isinstance(answer, sa.Report):
        for row in answer.rows:
            ends = [0.0 if row.lower is None else row.lower, row.upper]
            yield [f"{row.measure}, {row.scope}", *(float(end) for end in ends if end is not None)]
    elif isinstance(answer, bool | int | np.integer | np.bool_):
        yield [name, int(answer)]
    elif isinstance(answer, float | Fraction | np.floating):
        yield [name, float(answer)]
    elif dataclasses.is_dataclass(answer):
        for field in dataclasses.fields(answer):
            yield from _plain(f"{name}.{field.name}", getattr(answer, field.name))
    elif isinstance(answer, np.ndarray | list | tuple):
        for index, entry in enumerate(answer):
            yield from _plain(f"{name}[{index}]", entry)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Stop what takes more of the processor's time, where the system can."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"more than {seconds:g} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def main() -> None:
    """Ask everything; a line of JSON for each answer, with the seconds of the processor it took."""
    print(json.dumps({"package": sa.__file__}), flush=True)
    for kind, (text, call) in itertools.chain(of_references(Path(sys.argv[1])), at_random()):
        start = time.process_time()
        found: dict[str, Any] = {"kind": kind, "question": text}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of loose brackets: their ends are compared
            try:
                with _at_most(LONGEST):
                    found["answer"] = plain(call())
            except Exception as error:
                found["error"] = f"{type(error).__name__}: {error}"
        found["seconds"] = round(time.process_time() - start, 4)
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
