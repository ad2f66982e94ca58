"""Claim: nine statements printed in 'Privacy Implications of Shuffling' are not as printed.

Each is put beside what it is about: all permutations of a few users, or an exact sum. Two are
unsafe: the ceiling in theorem A.4, whose delta can be smaller than the truth, 0 even; and the
formula of definition A.2, if algorithm 1 is built on it. The others are loose, or slips.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome

Permutation = tuple[int, ...]
Verdict = tuple[str, str, bool]

# An order and a group for which the conventions of definition A.2 differ.
SIGMA0, GROUP = (0, 4, 1, 2, 3), (0, 4)


def run(quick: bool, note: Note) -> Outcome:
    """All of them; they take a second, quick or not."""
    judges: dict[str, Callable[[], Verdict]] = {
        "definition A.2": _convention,
        "lemma 4": _neighbours,
        "property 4": _sensitivity,
        "Hamming": _width,
        "theorem A.4, ceiling": _ceiling,
        "theorem A.4, factor": _factor,
        "theorem A.4, !0": _derangements,
        "theorem 4.2": _pointing_out,
        "property 2": _half,
    }
    claims = []
    for name, judge in judges.items():
        note(name)
        text, measured, holds = judge()
        claims.append(Claim(name=name, text=text, measured=measured, holds=holds))
    rows = [{"what": claim.name, "measured": claim.measured} for claim in claims]
    return Outcome(claims, rows)


def inversions(s: Permutation) -> int:
    return sum(s[i] > s[j] for i, j in itertools.combinations(range(len(s)), 2))


def after(a: Iterable[int], b: Permutation) -> Permutation:
    """The function i -> b[a[i]]."""
    return tuple(b[i] for i in a)


def inverse(s: Permutation) -> Permutation:
    return tuple(sorted(range(len(s)), key=s.__getitem__))


def exchanges(n: int, group: Iterable[int]) -> list[Permutation]:
    """Permutations of n users that move none but the group's."""
    members = tuple(group)
    found = []
    for image in itertools.permutations(members):
        kappa = list(range(n))
        for user, other in zip(members, image, strict=True):
            kappa[user] = other
        found.append(tuple(kappa))
    return found


def loss(distance_of_release: Callable[[Permutation], int], n: int, group: Iterable[int]) -> int:
    """Largest log ratio of neighbours over theta, when a release has mass e^(-theta distance)."""
    changes = exchanges(n, group)
    return max(
        abs(distance_of_release(s) - distance_of_release(after(s, kappa)))
        for s in itertools.permutations(range(n))
        for kappa in changes
    )


def _convention() -> Verdict:
    sigma0 = SIGMA0
    rank = inverse(sigma0)
    # a draw from the law around sigma0 is s* after sigma0, its items s*[sigma0[k]] in order k
    items = loss(lambda s: inversions(after(after(sigma0, s), rank)), 5, GROUP)
    # definition A.2 compares positions: of the draw after sigma0's inverse, which is s* again
    positions = loss(inversions, 5, GROUP)
    groups = sa.order.Groups.from_lists([GROUP], users=5)
    claimed = sa.order.sensitivity(sigma0, groups)
    return (
        "with the formula of definition A.2, which compares positions, algorithm 1 is not private "
        "as claimed; with its sentence, which compares items, it is",
        f"sigma0 = {sigma0}, group {GROUP}: claimed alpha/theta = {claimed}, true {items} for "
        f"items, {positions} for positions",
        claimed == items < positions,
    )


def _neighbours() -> Verdict:
    s, kappa = (2, 0, 1), (1, 0, 2)
    other = after(s, kappa)
    slots = [i for i in range(3) if s[i] != other[i]]
    return (
        "lemma 4's neighbouring outputs may differ in slots outside of the group",
        f"s = {s}, users 0 and 1 exchanged: {other}, which differs in slots {slots}",
        not set(slots) <= {0, 1},
    )


def _sensitivity() -> Verdict:
    found = {}
    examples = {
        "the group {4, 5, 7} of A.10": ((5, 2, 3, 8, 4, 1, 6, 7), (4, 5, 7)),
        "the group G1 of section 4": ((1, 3, 7, 8, 6, 4, 5, 2, 9, 10), (1, 7, 8, 2, 5, 6)),
    }
    for name, (one_based, members) in examples.items():
        order = tuple(user - 1 for user in one_based)
        groups = sa.order.Groups.from_lists([[user - 1 for user in members]], users=len(order))
        found[name] = (
            sa.order.sensitivity(order, groups),
            sa.order.sensitivity(order, groups, kind="bound"),
        )
    # a pair at the ends of six, by all permutations
    pair = loss(inversions, 6, (0, 5))
    measured = ", ".join(f"{name}: {a}, not {b}" for name, (a, b) in found.items())
    return (
        "the sensitivity of Kendall's distance is not w(w + 1)/2 but less if a group has gaps",
        f"{measured}; two users at distance w = 5: {pair}, not 15",
        list(found.values()) == [(13, 28), (21, 28)] and pair == 2 * 5 - 1,
    )


def _width() -> Verdict:
    def moved(s: Permutation) -> int:
        return sum(value != i for i, value in enumerate(s))

    near, far = loss(moved, 6, (0, 1, 2)), loss(moved, 6, (0, 2, 5))
    return (
        "the sensitivity of Hamming's distance does not grow with the width",
        f"three users of six, width 2: {near}, width 5: {far}",
        near == far == 3,
    )


def _ceiling() -> Verdict:
    parts, holds = [], True
    for size, kept, theta in ((5, 0.5, 0.5), (5, 0.7, 1.0)):
        weights: dict[int, float] = {}
        for s in itertools.permutations(range(8)):
            j = sum(s[i] >= size for i in range(size))
            mass = math.exp(-theta * sum(value != i for i, value in enumerate(s)))
            weights[j] = weights.get(j, 0.0) + mass
        total = math.fsum(weights.values())
        at_least = [math.fsum(w for j, w in weights.items() if j >= k) / total for k in range(6)]
        true = at_least[math.floor((1 - kept) * size + 1e-9) + 1]
        printed = at_least[math.ceil((1 - kept) * size - 1e-9) + 1]
        ours = sa.order.preservation_delta(8, size, kept, theta)
        parts.append(
            f"l = {size}, eta = {kept:g}, theta = {theta:g}: {true:.4f}, not {printed:.4f}"
        )
        holds &= printed < true and abs(ours - true) < 1e-12
    return (
        "theorem A.4 rounds (1 - eta) l up and misses failures: its delta is too small",
        "n = 8, all permutations: " + "; ".join(parts),
        holds,
    )


def _forbidden(p: int, m: int) -> int:
    """Orders of p + m values in which p avoid a place of their own: f of theorem A.4."""
    return sum((-1) ** t * math.comb(p, t) * math.factorial(p + m - t) for t in range(p + 1))


def _factor() -> Verdict:
    n, size, h = 6, 3, 4
    listed = sum(
        sum(value != i for i, value in enumerate(s)) == h and any(s[i] >= size for i in range(size))
        for s in itertools.permutations(range(n))
    )
    sums = {}
    for printed in (False, True):
        sums[printed] = sum(
            math.comb(size, j) * math.comb(n - size, j)
            * math.comb(size - j, i) * _forbidden(i, j)
            * math.comb(n - size - j, h - 2 * j - i) * _forbidden(h - 2 * j - i, j)
            * (math.comb(i + j, j) if printed else 1)
            for j in range(1, size + 1)
            for i in range(max(h - 2 * j, -1) + 1)
        )  # fmt: skip
    return (
        "the statement of theorem A.4 has a binomial factor too many; its proof has not",
        f"n = {n}, l = {size}, {h} moved, a leaver or more: {listed} permutations, without the "
        f"factor {sums[False]}, with it {sums[True]}",
        listed == sums[False] < sums[True],
    )


def _derangements() -> Verdict:
    printed = math.floor(math.factorial(0) / math.e + 0.5)
    return (
        "the closed form of derangements is wrong at 0, where theorem A.4 needs it",
        f"floor(0!/e + 1/2) = {printed}, true {_forbidden(0, 0)}",
        printed != _forbidden(0, 0) == 1,
    )


def _pointing_out() -> Verdict:
    parts, holds = [], True
    for r, k, eps, alpha in ((50, 5, 0.2, 2.0), (50, 5, 1.0, 1.0), (1000, 5, 2.5, 4.0)):
        paper, best = (
            sa.order.reidentification_bound(r, k, eps, alpha, method).win_cap
            for method in ("paper", "best")
        )
        parts.append(f"r = {r}, eps = {eps:g}, alpha = {alpha:g}: {best:.4f}, not {paper:.4f}")
        holds &= best < 0.95 * paper if paper < 0.99 else best < paper
    return (
        "theorem 4.2's cap on the chance to point out k = 5 of r is right and far from the best",
        "; ".join(parts),
        holds,
    )


def _half() -> Verdict:
    claimed, true = 0.5, 0.6

    def shifts(prior: float) -> tuple[float, float]:
        """Posterior over prior of either of two orders, likelihoods a factor e^true apart."""
        up = math.exp(true) / (prior * math.exp(true) + 1.0 - prior)
        return up * math.exp(-true), up

    (down, up), (_, rare) = shifts(0.5), shifts(0.01)
    bound = math.exp(claimed)
    return (
        "property 2's prior of 1/2 does not show a mechanism to fail; a rare order does",
        f"alpha = {true}, claimed {claimed}: ratios {down:.3f} and {up:.3f} within "
        f"[{1 / bound:.3f}, {bound:.3f}]; prior 0.01: {rare:.3f}",
        1 / bound < down < up < bound < rare,
    )
