"""The two adversaries of k-ary randomized response, atom by atom, in 50-digit arithmetic.

With probability gamma a user answers uniformly at random over the k values, else truthfully. The
target holds value 1 under the first dataset and 2 under the second; nobody else matters but by the
messages that hide it, so each adversary is a joint law of what it sees and nothing is assumed
independent.

* The weak adversary knows who of the *others* answered at random, B ~ Bin(n-1, gamma) of them, and
  sees the counts (N1, N2, rest) of their messages and the target's.
* The strong adversary also knows whether the target did. If so (probability gamma) both datasets
  look alike. Else it sees a target that tells the truth and C ~ Bin(n-1, 2 gamma/k) uniform
  answers on {1, 2}, A ~ Bin(C, 1/2) of them "1".

Probabilities come from the counting formulas, losses only from the two probabilities.
``weak_by_losses`` goes the other way for one round: counts under the first dataset alone and the
closed formula of the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from .clones import Atom
from .precision import MP, Real, exact


def weak(categories: int, gamma: float, users: int) -> list[Atom]:
    """The pair of the weak adversary: (P, Q) of each (B, N1, N2).

    Args:
        categories: number of values k.
        gamma: probability of a uniformly random answer, taken at its binary value.
        users: number of messages n; up to about 40.

    Returns:
        One atom per outcome of positive probability; both columns sum to 1.
    """
    g = exact(gamma)
    value = 1 / exact(categories)  # of a uniform answer
    rest = exact(categories - 2) / categories
    keep, other, elsewhere = 1 - g + g * value, g * value, g * rest
    atoms: list[Atom] = []
    for b in range(users):
        known = comb(users - 1, b) * g**b * (1 - g) ** (users - 1 - b)

        def crowd(ones: int, twos: int, total: int = b) -> Real:
            """Multinomial probability of the counts among the b uniform answers."""
            others = total - ones - twos
            if min(ones, twos, others) < 0:
                return exact(0)
            ways = comb(total, ones) * comb(total - ones, twos)
            return ways * value ** (ones + twos) * rest**others

        for ones in range(b + 2):
            for twos in range(b + 2 - ones):
                from_one, from_two = crowd(ones - 1, twos), crowd(ones, twos - 1)
                from_rest = crowd(ones, twos)
                p = known * (keep * from_one + other * from_two + elsewhere * from_rest)
                q = known * (other * from_one + keep * from_two + elsewhere * from_rest)
                if p or q:
                    atoms.append((p, q))
    return atoms


def strong(categories: int, gamma: float, users: int, *, mixed: bool = True) -> list[Atom]:
    """The pair of the strong adversary: (P, Q) of each (C, N1), and an atom of loss 0.

    Args:
        categories: number of values k.
        gamma: probability of a uniformly random answer, taken at its binary value.
        users: number of messages n.
        mixed: True is the exact pair. False is given that the target told the truth, which drops
            the factor 1 - gamma and the atom of loss 0: the variants "paper" and "tail".

    Returns:
        PldAtoms; those that rule the second dataset out have Q = 0.
    """
    g = exact(gamma)
    rate = 2 * g / categories
    truthful = 1 - g if mixed else exact(1)
    atoms: list[Atom] = [(g, g)] if mixed and g else []
    for c in range(users):
        known = truthful * comb(users - 1, c) * rate**c * (1 - rate) ** (users - 1 - c)
        known /= exact(2) ** c
        if not known:
            continue
        for ones in range(c + 2):  # N1 = ones, N2 = c + 1 - ones
            # the target's own answer is one of N1 under the first, of N2 under the second
            p = comb(c, ones - 1) if ones else 0
            atoms.append((known * p, known * comb(c, ones)))
    return atoms


def tail(atoms: Sequence[Atom], epsilon: float | Real) -> Real:
    """P(loss >= epsilon) under the first dataset, infinite losses included."""
    alpha = MP.exp(exact(epsilon))
    return MP.fsum(p for p, q in atoms if p and p >= alpha * q)


def weak_by_losses(categories: int, gamma: float, users: int, epsilon: float | Real) -> Real:
    """delta(epsilon) of the weak adversary as E[1 - e^(epsilon - loss)]_+ under the first dataset.

    With B uniform answers of the others and counts (N1, N2) among the B + 1 messages left,

        loss = log((keep N1 + (gamma/k) (B+1)) / (keep N2 + (gamma/k) (B+1))),  keep = 1 - gamma,

    where (N1, N2) is the target's own letter (1 with probability keep + gamma/k) added to the joint
    multinomial of the B others.

    Args:
        categories: number of values k.
        gamma: probability of a uniformly random answer, in (0, 1).
        users: number of messages n.
        epsilon: any real number.

    Returns:
        The divergence of one round.
    """
    g, k, alpha = exact(gamma), exact(categories), MP.exp(exact(epsilon))
    keep, value = 1 - g, 1 / k
    own = (keep + g * value, g * value, g * (k - 2) * value)  # the target says 1, 2, else
    total = exact(0)
    for b in range(users):
        known = comb(users - 1, b) * g**b * keep ** (users - 1 - b)
        for a1 in range(b + 1):
            for a2 in range(b + 1 - a1):
                rest = b - a1 - a2
                mass = known * comb(b, a1) * comb(b - a1, a2)
                mass *= value ** (a1 + a2) * ((k - 2) * value) ** rest
                for says, (n1, n2) in enumerate(((a1 + 1, a2), (a1, a2 + 1), (a1, a2))):
                    ratio = keep * n2 + g * value * (b + 1)
                    ratio /= keep * n1 + g * value * (b + 1)
                    if alpha * ratio < 1:
                        total += mass * own[says] * (1 - alpha * ratio)
    return total
