"""Claim: named randomizers cost about as little as the general one, whatever their size.

k-ary randomized response against the weak adversary (the blanket reduction), k = 2 … 1e4, n = 1e3 …
1e9, one round and a thousand; a random channel of 16 inputs and 64 messages, all 240 ordered pairs
of inputs; Laplace and Gaussian noise. Composed frequency oracles, channels and noise, a composed
tail bound and a profile, as ratios to the general randomizer's answer in the same run.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import (
    Claim,
    Note,
    Outcome,
    Timing,
    answer,
    compact,
    interleave,
    relative_width,
    unmet,
)
from shuffle_accountant.randomizers.base import LocalRandomizer

EPS0 = 4.0  # of randomized response
DELTAS = {1: 1e-8, 1000: 1e-6}  # by number of rounds
MOST_SECONDS = {1: 1.0, 1000: 3.0}
MOST_WIDTH = 1e-3
SIZES = tuple(10**k for k in range(3, 10))
CATEGORIES = (2, 10, 100, 1000, 10**4)
FEWEST = 10**4  # growth is measured from here
MOST_TIMES = 20.0

INPUTS, MESSAGES, SEED = 16, 64, 0
MILLION = 10**6
MOST_CHANNEL_DELTA, MOST_CHANNEL_EPSILON, MOST_NOISE = 5.0, 20.0, 3.0

TINY = 1e-60

ORACLES = (sa.RAPPOR, sa.HadamardResponse, sa.SubsetSelection, sa.LocalHashing)
ORACLE_SIZE = 1000
# Seconds that goals of composed randomizers are stated in are those of a machine that answers for
# the clones in this time; it took 15 ms before their atoms were listed three times as fast.
CLONES_SECONDS = 0.0045
CLONES = "clones"
HEAVY = (
    "one letter far above all others counts as much as the bulk: no tilt reaches both, and sums of "
    "positive numbers answer for one alpha at a time"
)


@dataclass(frozen=True)
class Goal:
    """Questions that are to take this many seconds where the clones take `CLONES_SECONDS`.

    Attributes:
        name: a few words.
        text: the question.
        seconds: what it may take.
        calls: variants of it; the slowest counts.
        why: what keeps it from being met, where that is known.
        long: whether it takes too long to be asked quickly.
    """

    name: str
    text: str
    seconds: float
    calls: dict[str, Callable[[], sa.Bracket]]
    why: str = ""
    long: bool = False


def _goals() -> list[Goal]:
    """Composed randomizers, each from parameters to the certified bracket."""
    ask = functools.partial(functools.partial, _rounds_of)
    rng = np.random.default_rng(SEED)
    flat, spread = rng.dirichlet(np.ones(4), size=(2, 4))

    def oracles(eps0s: tuple[float, ...], *question: Any) -> dict[str, Callable[[], sa.Bracket]]:
        return {
            f"{kind.__name__}, eps0 = {eps0:g}": ask(
                kind(categories=ORACLE_SIZE, eps0=eps0), *question
            )
            for kind, eps0 in itertools.product(ORACLES, eps0s)
        }

    def one(call: Callable[[], sa.Bracket]) -> dict[str, Callable[[], sa.Bracket]]:
        return {"": call}

    laplace, gaussian = sa.LaplaceRandomizer, sa.GaussianRandomizer
    blanket = "blanket"
    return [
        Goal("oracles", "oracles, n = 1e6, T = 10", 0.1, oracles((1, 4, 6), MILLION, 10, 1e-6)),
        Goal("oracles, T = 30", "the same, T = 30", 0.1, oracles((6,), MILLION, 30, 1e-6)),
        Goal("oracles, n = 1e3", "the same, n = 1e3", 0.4, oracles((1, 4), 1000, 10, 1e-6)),
        Goal("oracles, n = 1e4", "the same, n = 1e4", 0.15, oracles((1, 4, 6), 10**4, 10, 1e-6)),
        Goal("oracles, T = 1", "the same, one round", 0.05, oracles((1, 4, 6), MILLION, 1, 1e-6)),
        Goal(
            "oracles, tiny delta",
            "the same, n = 1e6, T = 10, delta = 1e-100",
            0.2,
            oracles((4,), MILLION, 10, 1e-100),
        ),
        Goal(
            "flat channel",
            "4 x 4 channel with flat rows, n = 1e5, T = 10",
            0.15,
            one(ask(sa.DiscreteRandomizer(0.5 * flat + 0.125), 10**5, 10, 1e-6, blanket)),
        ),
        Goal(
            "spread channel",
            "4 x 4 channel with spread rows, n = 1e5, T = 10",
            0.5,
            one(ask(sa.DiscreteRandomizer(spread), 10**5, 10, 1e-6, blanket)),
        ),
        Goal(
            "large channel",
            f"{INPUTS} x {MESSAGES} channel, n = 1e5, T = 10",
            2.0,
            one(ask(random_channel(), 10**5, 10, 1e-6, blanket)),
        ),
        *(
            Goal(
                f"Laplace, eps0 = {eps0:g}",
                f"Laplace, eps0 = {eps0:g}, n = 1e4, T = 4",
                seconds,
                one(ask(laplace(eps0=eps0), 10**4, 4, 1e-6)),
            )
            for eps0, seconds in ((1.0, 0.15), (4.0, 0.2), (6.0, 1.0))
        ),
        Goal(
            "Laplace, n = 100",
            "Laplace, eps0 = 6, n = 100, T = 4",
            3.0,
            one(ask(laplace(eps0=6.0), 100, 4, 1e-6)),
        ),
        Goal(
            "max_eps0, Laplace",
            "max_eps0 of Laplace, n = 1e4, T = 4, epsilon = 1",
            3.0,
            one(functools.partial(_largest_eps0, laplace, 10**4, 4, 1.0)),
        ),
        Goal(
            "max_eps0, RAPPOR",
            f"max_eps0 of RAPPOR, k = {ORACLE_SIZE}, n = 1e6, T = 30, epsilon = 1",
            1.0,
            one(
                functools.partial(
                    _largest_eps0,
                    functools.partial(sa.RAPPOR, categories=ORACLE_SIZE),
                    MILLION,
                    30,
                    1.0,
                )
            ),
        ),
        Goal(
            "calibration of a sample",
            "max_eps0, 1000 of 1e9 users, T = 1e5, epsilon = 5, delta = 1e-12",
            5.0,
            one(_sampled_eps0),
        ),
        Goal(
            "Gaussian blanket, sigma = 2",
            "Gaussian blanket, sigma = 2, n = 1e3, T = 10",
            0.3,
            one(ask(gaussian(sigma=2.0), 1000, 10, 1e-6, blanket)),
        ),
        Goal(
            "Gaussian blanket, sigma = 1",
            "Gaussian blanket, sigma = 1, n = 1e5, T = 10",
            2.0,
            one(ask(gaussian(sigma=1.0), 10**5, 10, 1e-6, blanket)),
        ),
        *(
            Goal(
                f"Gaussian blanket, n = 1e3, T = {rounds}",
                f"Gaussian blanket, sigma = 1, n = 1e3, T = {rounds}",
                seconds,
                one(ask(gaussian(sigma=1.0), 1000, rounds, 1e-6, blanket)),
                why=HEAVY,
                long=True,
            )
            for rounds, seconds in ((1, 3.0), (10, 10.0))
        ),
        Goal(
            "Gaussian example",
            "Gaussian example, sigma = 2, n = 7 to 1e9, T = 10",
            0.5,
            {
                f"n = {compact(n)}": ask(gaussian(sigma=2.0), n, 10, 1e-6, "example")
                for n in (7, 1000, MILLION, 10**9)
            },
        ),
        Goal(
            "tail",
            "probabilistic DP of randomized response, k = 4, eps0 = 3, n = 1e5 to 1e9, T = 10 and "
            "T = 1000",
            1.5,
            {
                f"n = {compact(n)}, T = {rounds}": functools.partial(_tail, n, rounds, 1e-6)
                for n in (10**5, MILLION, 10**9)
                for rounds in (10, 1000)
            },
        ),
        Goal(
            "clones, T = 1000",
            "the general randomizer, n = 1e6, T = 1000",
            0.03,
            one(functools.partial(answer, EPS0, MILLION, 1000, 1e-6)),
        ),
        Goal(
            "profile",
            "profile of randomized response, k = 100, n = 5e4, T = 12, 39 points to delta = 1e-96",
            0.5,
            one(_profile),
        ),
    ]


def run(quick: bool, note: Note) -> Outcome:
    """Time randomized response at every size, then the others, then ask for a tiny delta."""
    rows: list[dict[str, Any]] = []
    # loops are compiled once after an installation, which is no part of an answer
    for randomizer in (sa.GaussianRandomizer(sigma=2.0), random_channel()):
        sa.ShuffleRound(randomizer, users=64).delta(epsilon=0.1)
    claims = _randomized_response(quick, note, rows)
    claims += _others(quick, note, rows)
    claims += _composed(quick, note, rows)
    claims.append(_growth(quick, note, rows))
    claims.append(_tiny(note, rows))
    return Outcome(claims, rows)


def random_channel() -> sa.DiscreteRandomizer:
    """A channel whose messages have ratios of up to about 7 between inputs, the same every time."""
    rng = np.random.default_rng(SEED)
    spread = rng.dirichlet(np.ones(MESSAGES), size=INPUTS)
    return sa.DiscreteRandomizer(0.5 * spread + 0.5 / MESSAGES)


def _rounds_of(
    randomizer: LocalRandomizer, users: int, rounds: int, delta: float, reduction: str = "auto"
) -> sa.Bracket:
    """From parameters to the bracket of epsilon."""
    one = sa.ShuffleRound(randomizer, users=users, reduction=reduction)
    return sa.FourierAccountant().compose(one, count=rounds).epsilon(delta=delta)


def _tail(users: int, rounds: int, delta: float) -> sa.Bracket:
    """The published tail bound of the adversary who knows which answers were random."""
    randomizer = sa.RandomizedResponse(categories=4, eps0=3.0)
    one = sa.ShuffleRound(randomizer, users=users, reduction="strong", variant="tail")
    return sa.FourierAccountant().compose(one, count=rounds).epsilon(delta=delta)


def _largest_eps0(
    randomizer: Callable[..., LocalRandomizer], users: int, rounds: int, epsilon: float
) -> sa.Bracket:
    """The bracket at the largest eps0 that meets the target."""
    found = sa.max_eps0(
        users=users, rounds=rounds, target_epsilon=epsilon, delta=1e-6, randomizer=randomizer
    )
    return found.evidence.bracket


def _sampled_eps0() -> sa.Bracket:
    """The same for a small sample of a large population, many times."""
    found = sa.max_eps0(users=1000, population=10**9, rounds=10**5, target_epsilon=5.0, delta=1e-12)
    return found.evidence.bracket


def _profile() -> sa.Bracket:
    """The curve delta(epsilon); the bracket is an epsilon times its widest point's relative width.

    A width is that in delta or, where it is less, the step in epsilon between the ends.
    """
    one = sa.ShuffleRound(sa.RandomizedResponse(categories=100, eps0=EPS0), users=50_000)
    curve = sa.FourierAccountant().compose(one, count=12).profile(np.linspace(0.05, 1.95, 39))
    # the upper end comes down to the lower one a little further to the right
    later = np.interp(-np.log(curve.lower), -np.log(curve.upper), curve.epsilons)
    width = np.minimum(later / curve.epsilons, curve.upper / curve.lower)
    widest = int(np.argmax(width))
    least = float(curve.epsilons[widest])
    return sa.Bracket(lower=least, upper=least * float(width[widest]), reduction="blanket")


def _weak(categories: int, users: int, rounds: int, delta: float) -> sa.Bracket:
    randomizer = sa.RandomizedResponse(categories=categories, eps0=EPS0)
    return _rounds_of(randomizer, users, rounds, delta, "blanket")


def _randomized_response(quick: bool, note: Note, rows: list[dict[str, Any]]) -> list[Claim]:
    sizes, kinds = ((10**3, 10**6, 10**9), (2, 10**4)) if quick else (SIZES, CATEGORIES)
    claims = []
    widths: dict[str, float] = {}
    for rounds, delta in DELTAS.items():
        calls: dict[str, Callable[[], sa.Bracket]] = {
            f"n = {compact(users)}, k = {compact(k)}, T = {rounds}": functools.partial(
                _weak, k, users, rounds, delta
            )
            for users, k in itertools.product(sizes, kinds)
        }
        timings = interleave(calls, 1 if quick else 3, note=note, warm_up=not quick)
        for name, timing in timings.items():
            rows.append(_row("randomized response", name, timing))
            widths[name] = relative_width(timing.result)
        slowest = max(timings, key=lambda name: timings[name].median)
        most = MOST_SECONDS[rounds]
        claims.append(
            Claim(
                name=f"randomized response, {rounds} round{'s' if rounds > 1 else ''}",
                text=f"k-ary randomized response, weak adversary, k up to 1e4, n up to 1e9, "
                f"T = {rounds}: under {most:.0f} s",
                measured=f"slowest {timings[slowest]} ({slowest})",
                holds=timings[slowest].median < most,
            )
        )
    widest = max(widths, key=widths.__getitem__)
    claims.append(
        Claim(
            name="width",
            text=f"and the relative bracket is at most {MOST_WIDTH:g}",
            measured=f"widest {widths[widest]:.1e} ({widest})",
            holds=widths[widest] <= MOST_WIDTH,
        )
    )
    return claims


def _others(quick: bool, note: Note, rows: list[dict[str, Any]]) -> list[Claim]:
    """Channel and noise at a million users."""
    channel = random_channel()

    def channel_round() -> sa.ShuffleRound:
        return sa.ShuffleRound(channel, users=MILLION, reduction="blanket")

    # an epsilon at which delta is neither 0 nor 1
    epsilon = float(channel_round().epsilon(delta=1e-6))
    calls: dict[str, Callable[[], sa.Bracket]] = {
        "channel, delta": lambda: channel_round().delta(epsilon=epsilon),
        "channel, epsilon": lambda: channel_round().epsilon(delta=1e-6),
        "Laplace": lambda: _rounds_of(sa.LaplaceRandomizer(eps0=1.0), MILLION, 1, 1e-6),
        "Gaussian": lambda: _rounds_of(sa.GaussianRandomizer(sigma=2.0), MILLION, 1, 1e-6),
    }
    limits = dict(
        zip(calls, (MOST_CHANNEL_DELTA, MOST_CHANNEL_EPSILON, MOST_NOISE, MOST_NOISE), strict=True)
    )
    texts = {
        "channel, delta": f"{INPUTS} x {MESSAGES} channel, all 240 ordered pairs: delta",
        "channel, epsilon": f"{INPUTS} x {MESSAGES} channel, all 240 ordered pairs: epsilon",
        "Laplace": "Laplace noise, eps0 = 1: epsilon",
        "Gaussian": "Gaussian noise, sigma = 2: epsilon",
    }
    timings = interleave(calls, 1 if quick else 3, note=note, warm_up=not quick)
    rows += [_row(name, f"n = {compact(MILLION)}", timing) for name, timing in timings.items()]
    widths = {name: relative_width(timing.result) for name, timing in timings.items()}
    widest = max(widths, key=widths.__getitem__)
    claims = [
        Claim(
            name=name,
            text=f"{texts[name]} at n = 1e6 in under {limits[name]:.0f} s",
            measured=str(timing),
            holds=timing.median < limits[name],
        )
        for name, timing in timings.items()
    ]
    claims.append(
        Claim(
            name="width of the others",
            text=f"and these relative brackets are at most {MOST_WIDTH:g}",
            measured=f"widest {widths[widest]:.1e} ({widest})",
            holds=widths[widest] <= MOST_WIDTH,
        )
    )
    return claims


def _composed(quick: bool, note: Note, rows: list[dict[str, Any]]) -> list[Claim]:
    """Each goal against the clones, side by side."""
    clones = functools.partial(answer, EPS0, MILLION, 10, 1e-6)
    claims = []
    for goal in _goals():
        most = goal.seconds / CLONES_SECONDS
        text = f"{goal.text}: within {MOST_WIDTH:g} in at most {most:.0f} times the clones' time"
        if quick and goal.long:
            claims.append(
                Claim(
                    name=goal.name,
                    text=text,
                    measured="takes minutes: not asked with --quick",
                    holds=None,
                )
            )
            continue
        calls = {
            f"{goal.name}{', ' if name else ''}{name}": ask for name, ask in goal.calls.items()
        }
        timings = interleave(
            {CLONES: clones, **calls},
            1 if quick or goal.long else 3,
            note=note,
            warm_up=not goal.long,
        )
        base = timings.pop(CLONES)
        rows += [_row("composed", name, timing) for name, timing in timings.items()]
        times = {name: timing.times(base) for name, timing in timings.items()}
        slowest = max(times, key=lambda name: times[name].median)
        widest = max(relative_width(timing.result) for timing in timings.values())
        met = times[slowest].median <= most and widest <= MOST_WIDTH
        measured = f"{times[slowest]}, {timings[slowest]} ({slowest}); widest {widest:.1e}"
        claims.append(
            Claim(name=goal.name, text=text, measured=measured + unmet(met, goal.why), holds=met)
        )
    return claims


def _growth(quick: bool, note: Note, rows: list[dict[str, Any]]) -> Claim:
    """One round of each, against its own time at the fewest users."""
    sizes = (FEWEST, 10**9) if quick else tuple(n for n in SIZES if n >= FEWEST)
    delta = DELTAS[1]
    kinds: dict[str, Callable[[int], sa.Bracket]] = {
        "k = 4": lambda n: _weak(4, n, 1, delta),
        "k = 1e4": lambda n: _weak(10**4, n, 1, delta),
        "Laplace": lambda n: _rounds_of(sa.LaplaceRandomizer(eps0=1.0), n, 1, delta),
    }
    if not quick:
        kinds["Gaussian"] = lambda n: _rounds_of(sa.GaussianRandomizer(sigma=2.0), n, 1, delta)
        channel = random_channel()
        kinds["channel"] = lambda n: sa.ShuffleRound(channel, users=n).delta(epsilon=0.1)
    times: dict[str, float] = {}
    for kind, ask in kinds.items():
        calls = {f"{kind}, n = {compact(n)}": functools.partial(ask, n) for n in sizes}
        timings = interleave(
            calls, 1 if quick or kind == "channel" else 3, note=note, warm_up=not quick
        )
        base = timings[f"{kind}, n = {compact(FEWEST)}"].median
        for name, timing in timings.items():
            rows.append(_row("growth", name, timing))
            times[name] = timing.median / base
    worst = max(times, key=times.__getitem__)
    return Claim(
        name="growth",
        text=f"no n up to 1e9 takes over {MOST_TIMES:.0f} times n = 1e4",
        measured=f"most {times[worst]:.2f} times ({worst}); at n = 1e9 "
        + ", ".join(f"{times[f'{kind}, n = 1e9']:.2f} ({kind})" for kind in kinds),
        holds=times[worst] <= MOST_TIMES,
    )


def _tiny(note: Note, rows: list[dict[str, Any]]) -> Claim:
    """Epsilon at a delta that transforms in double precision reach only by tilting."""
    kinds: dict[str, LocalRandomizer] = {
        "k = 4": sa.RandomizedResponse(categories=4, eps0=EPS0),
        "k = 1e4": sa.RandomizedResponse(categories=10**4, eps0=EPS0),
        "channel": random_channel(),
        "Laplace": sa.LaplaceRandomizer(eps0=1.0),
    }
    widths: dict[str, float] = {}
    failures: list[str] = []
    for name, randomizer in kinds.items():
        one = sa.ShuffleRound(randomizer, users=FEWEST)
        calls = {f"{name}, delta = {TINY:g}": functools.partial(one.epsilon, delta=TINY)}
        try:
            ((what, timing),) = interleave(calls, 1, note=note, warm_up=False).items()
            bracket: sa.Bracket = timing.result
            # and back again, a little to either side
            above, below = (one.delta(epsilon=x) for x in (0.999 * bracket.lower, bracket.upper))
        except ArithmeticError as error:
            failures.append(f"{name}: {error}")
            continue
        rows.append(_row("tiny delta", what, timing))
        widths[name] = relative_width(bracket)
        if not (bracket.lower > 0.0 and above.upper >= TINY >= 0.999 * below.lower):
            failures.append(f"{name}: contradictory")
    widest = max(widths, key=widths.__getitem__)
    return Claim(
        name="tiny delta",
        text=f"with a finite eps0: epsilon at delta = {TINY:g}, n = 1e4, within {MOST_WIDTH:g}, "
        "and delta there agrees",
        measured="; ".join([f"widest {widths[widest]:.1e} ({widest})", *failures]),
        holds=not failures and widths[widest] <= MOST_WIDTH,
    )


def _row(what: str, setting: str, timing: Timing) -> dict[str, Any]:
    return {
        "what": what,
        "setting": setting,
        "lower": timing.result.lower,
        "upper": timing.result.upper,
        "relative_width": relative_width(timing.result),
        "reduction": timing.result.reduction,
        **timing.as_row(),
    }
