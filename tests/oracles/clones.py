"""The clones pair, atom by atom, in 50-digit arithmetic.

One target message is 0 with probability u = e^eps0/(e^eps0+1) and 1 with probability v = 1 - u
under the first dataset, the other way round under the second. Each of the n-1 decoys says
"nothing" with probability 1 - r, and otherwise 0 or 1 with equal probability; r = 2v for a common
randomizer, e^-eps0 for interactive ones. If C decoys speak and a zeros are among the m = C+1
speaking messages, then

    P(C, a) = Bin(C; n-1, r) 2^-C (u binom(C, a-1) + v binom(C, a)),

Q(C, a) has u and v exchanged, and P/Q depends on a/m alone, so atoms with equal a/m are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations_with_replacement
from math import comb, factorial, prod

from .precision import MP, Real, exact

Atom = tuple[Real, Real]
"""(probability under the first dataset, probability under the second)."""

MOST_ATOMS = 200_000
"""A composition with more atoms than this is refused: it would take minutes."""


def letters(eps0: float, interactive: bool = False) -> tuple[Real, Real, Real]:
    """(u, v, r): the target's two probabilities and the chance that a decoy speaks."""
    e = MP.exp(exact(eps0))
    u, v = e / (e + 1), 1 / (e + 1)
    return u, v, 1 / e if interactive else 2 * v


def rows(eps0: float, interactive: bool = False) -> tuple[list[Real], list[Real], list[Real]]:
    """(p0, p1, q) over the letters 0, 1 and "nothing"."""
    u, v, r = letters(eps0, interactive)
    return [u, v, exact(0)], [v, u, exact(0)], [r / 2, r / 2, 1 - r]


def pair(eps0: float, users: int, interactive: bool = False) -> list[Atom]:
    """The exact dominating pair of one round of ``users`` eps0-private messages.

    Args:
        eps0: local privacy parameter, taken at its binary value.
        users: number of messages n; up to about 30 for one round, 12 if composed.
        interactive: use the decoys of the sequential case.

    Returns:
        One atom per distinct loss; both columns sum to 1.
    """
    u, v, r = letters(eps0, interactive)
    masses: dict[Fraction, Atom] = {}
    for c in range(users):
        speaking = comb(users - 1, c) * r**c * (1 - r) ** (users - 1 - c) / exact(2) ** c
        for a in range(c + 2):
            from_zero = comb(c, a - 1) if a else 0  # the target said 0, the decoys a-1 times
            from_one = comb(c, a)
            p, q = masses.get(Fraction(a, c + 1), (exact(0), exact(0)))
            p += speaking * (u * from_zero + v * from_one)
            q += speaking * (v * from_zero + u * from_one)
            masses[Fraction(a, c + 1)] = (p, q)
    return list(masses.values())


def subsampled(atoms: Sequence[Atom], users: int, population: int) -> list[Atom]:
    """The explicit pair when ``users`` of ``population`` take part, drawn without replacement.

    With g = users/population an atom with p > q becomes (g p + (1-g) q, q), one with p < q becomes
    (p, g q + (1-g) p), and what is missing to mass 1 on both sides is an atom of loss 0.

    Args:
        atoms: a symmetric pair (exchanging P and Q permutes the atoms), for the sampled users.
        users: users of a round.
        population: users they are drawn from.

    Returns:
        PldAtoms of the dominating pair.
    """
    g = exact(users) / population
    moved: list[Atom] = []
    for p, q in atoms:
        if p > q:
            moved.append((g * p + (1 - g) * q, q))
        elif p < q:
            moved.append((p, g * q + (1 - g) * p))
    rest = 1 - MP.fsum(p for p, _ in moved)
    return [*moved, (rest, rest)]


def lonely_rounds(eps0: float, rounds: int) -> list[Atom]:
    """The pair of ``rounds`` rounds of one user each: binary randomized response, composed.

    Only the number j of answers "0" matters: P = binom(T, j) u^j v^(T-j), Q has u and v exchanged.
    T + 1 atoms, so this is exact for thousands of rounds.
    """
    u, v, _ = letters(eps0)
    atoms: list[Atom] = []
    for j in range(rounds + 1):
        ways = comb(rounds, j)
        atoms.append((ways * u**j * v ** (rounds - j), ways * v**j * u ** (rounds - j)))
    return atoms


def composed(*rounds: Sequence[Atom]) -> list[Atom]:
    """The product pair of independent rounds: every combination of atoms, masses multiplied."""
    total: list[Atom] = [(exact(1), exact(1))]
    for atoms in rounds:
        if len(total) * len(atoms) > MOST_ATOMS:
            raise ValueError(f"{len(total)} x {len(atoms)} atoms are too many to enumerate")
        total = [(p * s, q * t) for p, q in total for s, t in atoms]
    return total


def self_composed(atoms: Sequence[Atom], rounds: int) -> list[Atom]:
    """``rounds`` equal rounds: as ``composed``, with reorderings of the same atoms added up."""
    if comb(len(atoms) + rounds - 1, rounds) > MOST_ATOMS:
        raise ValueError(f"{rounds} rounds of {len(atoms)} atoms are too many to enumerate")
    total: list[Atom] = []
    for chosen in combinations_with_replacement(range(len(atoms)), rounds):
        repeats = prod(factorial(chosen.count(i)) for i in set(chosen))
        ways = factorial(rounds) // repeats
        p = MP.fprod(atoms[i][0] for i in chosen)
        q = MP.fprod(atoms[i][1] for i in chosen)
        total.append((ways * p, ways * q))
    return total


def delta(atoms: Sequence[Atom], epsilon: float | Real) -> Real:
    """H_alpha(P || Q) at alpha = e^epsilon; any real epsilon, negative ones included."""
    alpha = MP.exp(exact(epsilon))
    return MP.fsum(p - alpha * q for p, q in atoms if p > alpha * q)


def epsilon(atoms: Sequence[Atom], target: float | Real) -> Real:
    """The smallest epsilon >= 0 with delta(epsilon) <= target, without iteration.

    By Neyman and Pearson H_alpha is the largest of P(A) - alpha Q(A) over the sets A = "the k atoms
    with the largest loss". It is at most ``target`` when alpha >= (P(A) - target)/Q(A) for each.

    Args:
        atoms: a pair with q > 0 on every atom.
        target: delta in (0, 1).

    Returns:
        max(0, log of the largest such ratio).
    """
    wanted = exact(target)
    alpha, p_sum, q_sum = exact(1), exact(0), exact(0)
    for p, q in sorted(atoms, key=lambda atom: atom[0] / atom[1], reverse=True):
        p_sum += p
        q_sum += q
        alpha = max(alpha, (p_sum - wanted) / q_sum)
    return MP.log(alpha)
