"""Claim: no named randomizer is slow. Every one of the catalogue, against the clones' answer.

Every randomizer that the package registers x k = 20, 1000 (where it has categories) x eps0 = 1, 4,
6 x T = 1, 30, at n = 1e6. Times are ratios to the general randomizer's answer in the same run, so
that they mean the same on any machine.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, answer, compact, interleave, relative_width
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.reports.catalogue import Maker, makers

USERS = 10**6
DELTA = 1e-6
CATEGORIES, EPS0S, ROUNDS = (20, 1000), (1.0, 4.0, 6.0), (1, 30)
SIGMAS = (2.0, 4.0)  # of Gaussian noise, which has no eps0
MULTIPLIERS = (2.0,)  # of Gaussian vectors
DELTA0 = 1e-16  # of messages close to a null law: 30 million of them spend a thousandth of delta
DIMENSION = 16  # of vectors
INPUTS, MESSAGES, SEED = 4, 16, 0
# Times the clones' answer to the same question: 0.14 s of 4.5 ms, and 2 s where there are many
# pairs of inputs or no finite eps0.
MOST_TIMES, MOST_TIMES_MANY = 30.0, 440.0
MANY = ("DiscreteRandomizer", "GaussianRandomizer", "GaussianVectors")
MOST_WIDTH = 1e-3
CLONES = "clones"


def run(quick: bool, note: Note) -> Outcome:
    """Time one answer of each against the clones, side by side."""
    rows: list[dict[str, Any]] = []
    slowest: dict[str, tuple[float, str]] = {}
    widest = (0.0, "")
    for rounds in ROUNDS[-1:] if quick else ROUNDS:
        calls: dict[str, Callable[[], sa.Bracket]] = {
            CLONES: functools.partial(answer, 4.0, USERS, rounds, DELTA)
        }
        calls |= {
            name: functools.partial(_epsilon, randomizer, rounds)
            for name, randomizer in _randomizers(quick)
        }
        timings = interleave(calls, 1 if quick else 3, note=note)
        for name, timing in timings.items():
            kind, setting = name.partition(",")[0], f"{name}, T = {rounds}"
            times = timing.times(timings[CLONES])
            width = relative_width(timing.result)
            rows.append(
                {
                    "randomizer": name,
                    "rounds": rounds,
                    "times": round(times.median, 3),
                    "lower": timing.result.lower,
                    "upper": timing.result.upper,
                    "relative_width": width,
                    "reduction": timing.result.reduction,
                    **timing.as_row(),
                }
            )
            group = "many" if kind in MANY else "one"
            slowest[group] = max(slowest.get(group, (0.0, "")), (times.median, setting))
            widest = max(widest, (width, setting))
    limits = {"one": MOST_TIMES, "many": MOST_TIMES_MANY}
    texts = {
        "one": "every randomizer with a finite eps0 and its own structure",
        "many": f"channels of {INPUTS} x {MESSAGES}, Gaussian noise and Gaussian vectors",
    }
    claims = [
        Claim(
            name=f"times the clones, {group}",
            text=f"{texts[group]}, n = {compact(USERS)}: at most {limits[group]:.0f} times the "
            "clones' time",
            measured=f"{times:.1f} times ({setting})",
            holds=times <= limits[group],
        )
        for group, (times, setting) in slowest.items()
    ]
    claims.append(
        Claim(
            name="width",
            text=f"and every relative bracket is at most {MOST_WIDTH:g}",
            measured=f"widest {widest[0]:.1e} ({widest[1]})",
            holds=widest[0] <= MOST_WIDTH,
        )
    )
    return Outcome(claims, rows)


def _epsilon(randomizer: LocalRandomizer, rounds: int) -> sa.Bracket:
    one = sa.ShuffleRound(randomizer, users=USERS)
    if rounds == 1:
        return one.epsilon(delta=DELTA)
    return sa.FourierAccountant().compose(one, count=rounds).epsilon(delta=DELTA)


def _randomizers(quick: bool) -> Iterator[tuple[str, LocalRandomizer]]:
    """Every randomizer with every value of what it asks for, by name and values."""
    return randomizers(
        {
            "categories": CATEGORIES[-1:] if quick else CATEGORIES,
            "eps0": EPS0S[-1:] if quick else EPS0S,
            "sigma": SIGMAS[:1] if quick else SIGMAS,
        }
    )


def randomizers(values: Mapping[str, tuple[Any, ...]]) -> Iterator[tuple[str, LocalRandomizer]]:
    """Every randomizer with every one of these values, by name and values.

    Args:
        values: of parameters, by name; what is not among them has one value of its own.
    """
    rng = np.random.default_rng(SEED)
    spread = rng.dirichlet(np.ones(MESSAGES), size=INPUTS)
    every: dict[str, tuple[Any, ...]] = {
        "dimension": (DIMENSION,),
        "delta0": (DELTA0,),
        "noise_multiplier": MULTIPLIERS,
        "channel": (0.5 * spread + 0.5 / MESSAGES,),
        **values,
    }
    for name, maker in makers().items():
        wanted = _wanted(maker)
        for chosen in itertools.product(*(every[parameter] for parameter in wanted)):
            arguments = dict(zip(wanted, chosen, strict=True))
            shown = [f"{key} = {value}" for key, value in arguments.items() if key != "channel"]
            yield ", ".join([name, *shown]), maker(**arguments)


def _wanted(maker: Maker) -> list[str]:
    """Names of the parameters without a default."""
    parameters = inspect.signature(maker).parameters.values()
    return [p.name for p in parameters if p.default is inspect.Parameter.empty]
