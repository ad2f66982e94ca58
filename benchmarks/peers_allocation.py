"""Claim: random allocation 20 times faster and 20 times narrower than PLD_accounting.

Noise multiplier 1, 1000 steps, delta = 1e-6, one epoch and ten: both answer from the parameters at
their default settings, in turn, ours with caches cleared. PLD_accounting (extra "test") refines
until its bracket is 5 % wide or so; ours is asked for 1e-3.

Without it nothing is judged.
"""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, Timing, interleave

PEER = "PLD_accounting"
SIGMA, STEPS, DELTA = 1.0, 1000, 1e-6
EPOCHS = (1, 10)
LEAST_FASTER, LEAST_NARROWER = 20.0, 20.0

Ends = tuple[float, float]


def run(quick: bool, note: Note) -> Outcome:
    """Ours and theirs in turn; one epoch alone when quick."""
    if importlib.util.find_spec(PEER) is None:
        reason = f"{PEER} cannot be imported"
        return Outcome([claim for epochs in EPOCHS for claim in _untested(epochs, reason)])
    claims: list[Claim] = []
    rows: list[dict[str, Any]] = []
    for epochs in EPOCHS[:1] if quick else EPOCHS:
        calls = {
            "ours": functools.partial(ours, epochs),
            PEER: functools.partial(theirs, epochs),
        }
        # theirs takes minutes for ten epochs; the first turn pays for compilation
        repetitions = 1 if quick or epochs > 1 else 3
        timings = interleave(calls, repetitions, note=note, warm_up=epochs == 1)
        claims += _claims(epochs, timings)
        rows += [
            {
                "epochs": epochs,
                "what": name,
                "lower": timing.result[0],
                "upper": timing.result[1],
                **timing.as_row(),
            }
            for name, timing in timings.items()
        ]
    return Outcome(claims, rows)


def ours(epochs: int) -> Ends:
    """Both ends of the bracket."""
    step = sa.GaussianMechanism(noise_multiplier=SIGMA)
    found = sa.epsilon(sa.RandomAllocation(step, steps=STEPS), delta=DELTA, rounds=epochs)
    return found.lower, found.upper


def theirs(epochs: int) -> Ends:
    """Both ends of theirs, which come in the other order."""
    from PLD_accounting.random_allocation_api import gaussian_allocation_epsilon_range

    upper, lower = gaussian_allocation_epsilon_range(
        delta=DELTA, sigma=SIGMA, num_steps=STEPS, num_epochs=epochs
    )
    return float(lower), float(upper)


TEXTS = {
    "faster": f"at least {LEAST_FASTER:.0f} times faster than {PEER}",
    "narrower": f"a bracket at least {LEAST_NARROWER:.0f} times narrower",
    "consistent": "both brackets meet",
}


def _name(what: str, epochs: int) -> str:
    return f"{what}, {epochs} epochs" if epochs > 1 else f"{what}, one epoch"


def _untested(epochs: int, reason: str) -> list[Claim]:
    return [
        Claim(name=_name(what, epochs), text=f"{text} (E = {epochs})", measured=reason, holds=None)
        for what, text in TEXTS.items()
    ]


def _claims(epochs: int, timings: dict[str, Timing]) -> list[Claim]:
    mine, its = timings["ours"], timings[PEER]
    ratio = its.times(mine)
    (low, high), (lower, upper) = mine.result, its.result
    narrower = (upper - lower) / upper / max((high - low) / high, 1e-300)
    measured = {
        "faster": (f"{ratio}: {its} against {mine}", ratio.median >= LEAST_FASTER),
        "narrower": (
            f"{narrower:.0f} times: [{low:.6f}, {high:.6f}] against [{lower:.4f}, {upper:.4f}]",
            narrower >= LEAST_NARROWER,
        ),
        "consistent": (
            f"[{low:.6f}, {high:.6f}] and [{lower:.4f}, {upper:.4f}]",
            low <= upper and lower <= high,
        ),
    }
    return [
        Claim(
            name=_name(what, epochs),
            text=f"{text} (E = {epochs})",
            measured=measured[what][0],
            holds=measured[what][1],
        )
        for what, text in TEXTS.items()
    ]
