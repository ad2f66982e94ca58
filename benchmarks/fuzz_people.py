"""Random questions of `benchmarks.fuzz` about people and shufflers, by enumeration of the protocol.

Several messages of a user, groups of people, imperfect shufflers, kept answers and thresholds: for
up to 5 messages, all data of the others and all changes of the target's, in fractions. The upper
end is above every one of them.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.fuzz_steps import MP, Digits

shown = importlib.import_module("oracles.people")
shuffled_output = importlib.import_module("oracles.enumeration").shuffled_output

_UNITS = 64
_OTHERS = 40  # the most other users whose threshold counts are listed
Pair = tuple[Any, Any]


def _channel(rng: np.random.Generator) -> list[list[Fraction]]:
    """Two rows of two or three messages, in multiples of 1/64, alike now and then."""
    letters = int(rng.integers(2, 4))
    while True:
        rows = [rng.multinomial(_UNITS, rng.dirichlet(np.ones(letters))) for _ in range(2)]
        if np.all(np.any(rows, axis=0)):  # a message that nobody sends is none
            return [[Fraction(int(one), _UNITS) for one in row] for row in rows]


def _floats(channel: list[list[Fraction]]) -> list[list[float]]:
    return [[float(one) for one in row] for row in channel]


def _sizes(rng: np.random.Generator, total: int) -> list[int]:
    first = int(rng.integers(1, total + 1))
    return [first, total - first] if first < total else [total]


def _pairs(law: Callable[[tuple[int, ...]], Any], changed: int, others: int) -> list[Pair]:
    """Laws of all neighbouring datasets whose first values differ, both ways."""
    found = []
    for rest in itertools.product((0, 1), repeat=others):
        laws = [law((*mine, *rest)) for mine in itertools.product((0, 1), repeat=changed)]
        found += list(itertools.permutations(laws, 2))
    return found


def _divergence(pairs: Iterable[Pair], epsilon: float) -> Digits:
    """The largest hockey-stick divergence of some pairs."""
    alpha, worst = MP.exp(MP.mpf(epsilon)), MP.mpf(0)
    for p, q in pairs:
        excess = MP.mpf(0)
        for outcome, mass in p.items():
            other = Fraction(q.get(outcome, 0))
            less = alpha * other.numerator / other.denominator
            excess += max(MP.mpf(mass.numerator) / mass.denominator - less, 0)
        worst = max(worst, excess)
    return Digits(worst)


def _several(rng: np.random.Generator) -> tuple[str, Any, dict[str, Any], list[Pair]]:
    """Messages of one user, or a group of people."""
    channel, changed = _channel(rng), int(rng.integers(1, 4))
    messages = changed + int(rng.integers(0, 6 - changed))
    pairs = _pairs(
        lambda data: shuffled_output(channel, data), changed=changed, others=messages - changed
    )
    randomizer, text = sa.DiscreteRandomizer(_floats(channel)), f"DiscreteRandomizer({channel})"
    if rng.random() < 0.5:
        people = sa.ShuffleRound(randomizer, users=messages)
        return f"{text}, users={messages}", people, {"group": changed}, pairs
    one = sa.ShuffleRound(randomizer, messages=messages, messages_per_user=changed)
    return f"{text}, messages={messages}, messages_per_user={changed}", one, {}, pairs


def _leaking(rng: np.random.Generator) -> tuple[str, Any, dict[str, Any], list[Pair]]:
    """A shuffler that hides less."""
    channel, users = _channel(rng), int(rng.integers(1, 5))
    if len(channel[0]) > 2:
        users = min(users, 3)  # or there are too many outcomes
    kind = str(rng.choice(["everyone", "target", "weights", "batches", "random", "smallest"]))
    colluding = int(rng.integers(0, users)) if kind == "weights" else 0
    share = Fraction(int(rng.integers(1, _UNITS + 1)), _UNITS)
    drawn = rng.multinomial(_UNITS, rng.dirichlet(np.ones(users))).tolist()
    weights = [Fraction(int(one), _UNITS) for one in drawn]
    sizes = _sizes(rng, users)
    law, leak = {
        "everyone": (
            lambda data: shown.exposed(channel, data, share, True),
            {"exposure": float(share)},
        ),
        "target": (
            lambda data: shown.exposed(channel, data, share, False),
            {"exposure": float(share), "everyone": False},
        ),
        "weights": (
            lambda data: shown.in_places(channel, data, weights, colluding),
            {"weights": [float(one) for one in weights]},
        ),
        "batches": (lambda data: shown.in_batches(channel, data, sizes, False), {"batches": sizes}),
        "random": (
            lambda data: shown.in_batches(channel, data, sizes, True),
            {"batches": sizes, "random_batches": True},
        ),
        "smallest": (
            lambda data: shown.in_batches(channel, data, sizes, False),
            {"minimum_batch": min(sizes)},
        ),
    }[kind]
    pairs = _pairs(law, 1, users - 1)
    options = ", ".join(f"{name}={value!r}" for name, value in leak.items())
    one = sa.ShuffleRound(
        sa.DiscreteRandomizer(_floats(channel)),
        users=users,
        colluding=colluding,
        shuffler=sa.Shuffler(**leak),
    )
    line = f"DiscreteRandomizer({channel}), users={users}, colluding={colluding}, {options}"
    return line, one, {}, pairs


def _kept(rng: np.random.Generator) -> tuple[str, Any, dict[str, Any], list[Pair]]:
    """Noisy copies of answers that are kept."""

    def response() -> list[list[Fraction]]:
        likely = Fraction(int(rng.integers(_UNITS // 2, _UNITS)), _UNITS)
        return [[likely, 1 - likely], [1 - likely, likely]]

    permanent, copies = response(), response()
    users, rounds = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    one = sa.MemoisedRounds(
        permanent=sa.DiscreteRandomizer(_floats(permanent)),
        instantaneous=sa.DiscreteRandomizer(_floats(copies)),
        users=users,
        rounds=rounds,
        same_participants=True,
    )
    pairs = _pairs(lambda data: shown.memoised(permanent, copies, data, rounds), 1, users - 1)
    return f"MemoisedRounds({permanent}, {copies}, {users}, {rounds})", one, {}, pairs


def _threshold(rng: np.random.Generator) -> tuple[str, Any, dict[str, Any], list[Pair]]:
    """Counts above a threshold, of one user more or less."""
    share = Fraction(int(rng.integers(1, _UNITS)), _UNITS)
    threshold = int(rng.integers(1, 7))
    one = sa.SampleAndThreshold(probability=float(share), threshold=threshold)
    laws = [shown.released(users, share, threshold) for users in range(_OTHERS + 1)]
    pairs = [pair for p, q in itertools.pairwise(laws) for pair in ((p, q), (q, p))]
    return f"SampleAndThreshold(probability={share}, threshold={threshold})", one, {}, pairs


def people(judge: Any, rng: np.random.Generator) -> None:
    """One round of people or of a shuffler as deployed, asked at a few epsilons."""
    judge.style = "people and shufflers"
    make = (_several, _leaking, _kept, _threshold)[int(rng.choice(4, p=[0.3, 0.4, 0.15, 0.15]))]
    line, one, options, pairs = make(rng)
    for epsilon in (0.0, float(rng.exponential(0.5)), float(rng.exponential(2.0))):
        said = f"sa.delta({line}, epsilon={epsilon!r}, **{options})"
        bracket = judge.ask(lambda e=epsilon: sa.delta(one, epsilon=e, **options), said)
        if bracket is not None:
            truth = _divergence(pairs, epsilon)
            judge.above("real protocol", bracket, truth, said)
