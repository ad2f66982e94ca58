"""Two adversaries against a shuffled group, played out in full: every report, every permutation.

The mechanism is Kendall's Mallows law around the identity; the group is a set of users. Its alpha
is measured: the largest log ratio between the laws of two orders of the group's values.
Slot i releases the report of user s[i].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, permutations, product

Permutation = tuple[int, ...]


def mallows(n: int, theta: float) -> dict[Permutation, float]:
    """Probability of every permutation."""
    weights = {
        s: math.exp(-theta * sum(s[i] > s[j] for i in range(n) for j in range(i + 1, n)))
        for s in permutations(range(n))
    }
    total = math.fsum(weights.values())
    return {s: weight / total for s, weight in weights.items()}


def exchanges(n: int, group: Sequence[int]) -> list[Permutation]:
    """All permutations of the users that move none outside of the group."""
    found = []
    for image in permutations(group):
        kappa = list(range(n))
        for user, other in zip(group, image, strict=True):
            kappa[user] = other
        found.append(tuple(kappa))
    return found


def alpha_of(law: dict[Permutation, float], group: Sequence[int]) -> float:
    """Largest log ratio between the laws of neighbours, for values that are all different."""
    n = len(next(iter(law)))
    return max(
        abs(math.log(mass / law[tuple(kappa[user] for user in s)]))
        for kappa in exchanges(n, group)
        for s, mass in law.items()
    )


def response(eps: float, values: int) -> list[list[float]]:
    """Randomized response as a channel."""
    keep = math.exp(eps)
    return [[(keep if x == y else 1.0) / (keep + values - 1) for y in range(values)]
            for x in range(values)]  # fmt: skip


def best_win(
    law: dict[Permutation, float],
    inputs: Sequence[int],
    channel: list[list[float]],
    wanted: Sequence[int],
) -> tuple[float, float]:
    """How often the best adversary wins who points out the wanted users' slots.

    For every output the slots with the largest posterior chance to hold more than half right.

    Returns:
        ``(average, largest)``: over the outputs, and given the worst output.
    """
    n, k = len(inputs), len(wanted)
    targets = list(combinations(range(n), k))
    joint: dict[tuple[int, ...], tuple[float, dict[tuple[int, ...], float]]] = {}
    for reports in product(range(len(channel[0])), repeat=n):
        chance = math.prod(channel[x][y] for x, y in zip(inputs, reports, strict=True))
        for s, mass in law.items():
            output = tuple(reports[user] for user in s)
            right = frozenset(slot for slot in range(n) if s[slot] in wanted)
            total, wins = joint.setdefault(output, (0.0, {}))
            for slots in targets:
                if 2 * len(right.intersection(slots)) > k:
                    wins[slots] = wins.get(slots, 0.0) + chance * mass
            joint[output] = (total + chance * mass, wins)
    best = {output: (total, max(wins.values())) for output, (total, wins) in joint.items()}
    return math.fsum(win for _, win in best.values()), max(
        win / total for total, win in best.values()
    )


def largest_shift(
    law: dict[Permutation, float],
    group: Sequence[int],
    prior: dict[tuple[int, ...], float],
    channel: list[list[float]],
    user: int,
) -> float:
    """Largest change of the log odds between two inputs of a user, who knows what theorem 4.1 says.

    Args:
        law: of the shuffle.
        group: the user's group; reports outside are known, those inside without their order.
        prior: of all inputs.
        channel: of the reports.
        user: whose input is guessed.
    """
    n = len(next(iter(law)))
    inside = sorted(group)
    seen: dict[tuple[tuple[int, ...], ...], dict[tuple[int, ...], list[float]]] = {}
    for inputs, belief in prior.items():
        for reports in product(range(len(channel[0])), repeat=n):
            chance = belief * math.prod(channel[x][y] for x, y in zip(inputs, reports, strict=True))
            if not chance:
                continue
            known = (
                tuple(sorted(reports[i] for i in inside)),
                tuple(reports[i] for i in range(n) if i not in group),
            )
            outputs = seen.setdefault(known, {})
            for s, mass in law.items():
                output = tuple(reports[i] for i in s)
                row = outputs.setdefault(output, [0.0] * len(channel))
                row[inputs[user]] += chance * mass
    worst = 0.0
    for outputs in seen.values():
        before = [math.fsum(row[x] for row in outputs.values()) for x in range(len(channel))]
        for row in outputs.values():
            for a, b in combinations(range(len(channel)), 2):
                if before[a] and before[b]:
                    shift = math.log(row[a] / row[b]) - math.log(before[a] / before[b])
                    worst = max(worst, abs(shift))
    return worst
