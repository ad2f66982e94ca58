"""Claim: three formulas printed as exact or as upper bounds are not what they are printed as.

All are from 'Numerical Accounting in the Shuffle Model' and what it builds on.

* Lemma A.4 gives the law of the informative decoys C with p for the rate 2p, as does the set S_n of
  Lemma 11, the range that C is cut to. The first makes half of the decoys and a delta that is safe
  and too large; the second, with the right law, leaves out nearly everything instead of tau.
* Equation 4.2, ``P(N1/N2 >= e^epsilon)``, is an upper bound on delta against the strong adversary
  of k-ary randomized response. Theorem 13 calls it tight; the divergence is
  ``(1 - gamma) E[1 - e^epsilon N2/N1]_+``.
* The three-component mixture of "specialised clones" is no upper bound for k >= 4.

What is printed is summed here, term by term, from the printed formula; what is true is certified.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome
from shuffle_accountant.baselines import specialised_clones

# Lemma A.4 and the range of Lemma 11.
EPS0, USERS, EPSILON, TAU = 1.0, 1000, 0.1, 1e-12
# Equation 4.2, in the setting of the paper's Figure 4.
CATEGORIES, GAMMA, STRONG_EPSILONS = 4, 0.25, (0.25, 0.5, 0.75, 1.0)
# Specialised clones.
FEW_USERS, FEW_EPSILON = 10, 0.6

# Relative; sums of up to 1e6 terms of one sign, each from a logarithm of up to 1e4 in size.
_ROUND_OFF = 1e-9

Array = NDArray[np.float64]


def run(quick: bool, note: Note) -> Outcome:
    """All of them; they take seconds, quick or not."""
    rows: list[dict[str, Any]] = []
    claims = []
    for name, judge in (
        ("Lemma A.4", _lemma_a4),
        ("Lemma 11", _lemma_11),
        ("equation 4.2", _equation_4_2),
        ("specialised clones", _specialised_clones),
    ):
        note(name)
        text, measured, holds = judge(rows)
        claims.append(Claim(name=name, text=text, measured=measured, holds=holds))
    return Outcome(claims, rows)


def clones_delta(eps0: float, users: int, epsilon: float, rate: float) -> float:
    """Delta of one round of the clones pair when C has the law Bin(users - 1, rate).

    Corollary A.3 times Lemma A.4: with ``p = 1/(e^eps0 + 1)``, C = i and A = j, the law P puts mass
    on (a, b) = (j + 1, i - j) and (j, i - j + 1), and Q is P with a and b exchanged. The lemma
    prints ``rate = p``; true is ``2 p``.
    """
    p = 1.0 / (math.exp(eps0) + 1.0)
    total = 0.0
    for i in range(users):
        j = np.arange(i + 2.0)  # a, of the i + 1 messages that are not blank
        mass = stats.binom.pmf(i, users - 1, rate)
        zero, one = mass * stats.binom.pmf(j - 1.0, i, 0.5), mass * stats.binom.pmf(j, i, 0.5)
        upper, lower = (1.0 - p) * zero + p * one, p * zero + (1.0 - p) * one
        total += float(np.sum(np.maximum(upper - math.exp(epsilon) * lower, 0.0)))
    return total


def neglected_mass(eps0: float, users: int, tau: float, centre: float) -> float:
    """What ``Bin(users - 1, 2p)`` has outside of ``(centre +- c_n)(users - 1)``, Lemma 11's range.

    The lemma prints ``centre = p``, with ``c_n = sqrt(log(4/tau) / (2 (users - 1)))``.
    """
    others = users - 1
    rate = 2.0 / (math.exp(eps0) + 1.0)
    reach = math.sqrt(math.log(4.0 / tau) / (2.0 * others))
    first = max(math.ceil((centre - reach) * others), 0)
    last = min(math.floor((centre + reach) * others), others)
    law = stats.binom(others, rate)
    return float(law.cdf(first - 1) + law.sf(last))


def printed_tail(categories: int, gamma: float, users: int, epsilon: float) -> float:
    """Equation 4.2: ``P(N1/N2 >= e^epsilon)``, N1 - 1 and N2 counts of two letters."""
    alpha = math.exp(epsilon)
    c = np.arange(users, dtype=float)  # N1 - 1 + N2
    # A + 1 >= alpha (c - A)
    least = np.ceil((alpha * c - 1.0) / (1.0 + alpha))
    mass: Array = stats.binom.pmf(c, users - 1, 2.0 * gamma / categories)
    return math.fsum((mass * stats.binom.sf(least - 1.0, c, 0.5)).tolist())


def _lemma_a4(rows: list[dict[str, Any]]) -> tuple[str, str, bool]:
    p = 1.0 / (math.exp(EPS0) + 1.0)
    printed, mended = (clones_delta(EPS0, USERS, EPSILON, rate) for rate in (p, 2.0 * p))
    true = sa.ShuffleRound(sa.GeneralRandomizer(eps0=EPS0), users=USERS).delta(epsilon=EPSILON)
    rows.append(_row("Lemma A.4", EPSILON, printed, *true.ends()))
    return (
        "Lemma A.4 as printed, with p, makes delta too large; with 2p it is right",
        f"eps0 = {EPS0:g}, n = {USERS}, epsilon = {EPSILON:g}: printed {printed:.5e}, true "
        f"{_ends(true)} ({printed / true.upper:.0f} times), with 2p {mended:.5e}",
        printed > true.upper and _within(mended, true),
    )


def _lemma_11(rows: list[dict[str, Any]]) -> tuple[str, str, bool]:
    p = 1.0 / (math.exp(EPS0) + 1.0)
    printed, mended = (neglected_mass(EPS0, USERS, TAU, centre) for centre in (p, 2.0 * p))
    rows.append(_row("Lemma 11, mass left out", TAU, printed, mended, mended))
    return (
        "Lemma 11's range of C as printed, around p, leaves out more than tau; around 2p less",
        f"tau = {TAU:g}: printed {printed:.12f}, around 2p {mended:.1e}",
        printed > TAU >= mended,
    )


def _equation_4_2(rows: list[dict[str, Any]]) -> tuple[str, str, bool]:
    krr = sa.RandomizedResponse.from_gamma(categories=CATEGORIES, gamma=GAMMA)
    exact, paper, tail = (
        sa.ShuffleRound(krr, users=USERS, reduction="strong", variant=variant)
        for variant in ("exact", "paper", "tail")
    )
    ratios, holds = [], True
    for epsilon in STRONG_EPSILONS:
        printed = printed_tail(CATEGORIES, GAMMA, USERS, epsilon)
        true = exact.delta(epsilon=epsilon)
        rows.append(_row("equation 4.2", epsilon, printed, *true.ends()))
        ratios.append(f"{printed / true.upper:.1f} times ({printed:.3e}) at {epsilon:g}")
        plotted = paper.delta(epsilon=epsilon)
        holds &= _within(printed, tail.delta(epsilon=epsilon))
        holds &= true.upper < plotted.lower and plotted.upper < printed
    return (
        "equation 4.2 is a bound, not tight as Theorem 13 says",
        f"k = {CATEGORIES}, gamma = {GAMMA:g}, n = {USERS}, against the true delta: "
        + ", ".join(ratios),
        holds,
    )


def _specialised_clones(rows: list[dict[str, Any]]) -> tuple[str, str, bool]:
    printed = specialised_clones.delta(
        eps0=EPS0, categories=4, users=FEW_USERS, epsilon=FEW_EPSILON
    )
    krr = sa.RandomizedResponse(categories=4, eps0=EPS0)
    one = sa.ShuffleRound(krr, users=FEW_USERS, reduction="blanket")
    true, bound = one.attained(epsilon=FEW_EPSILON), one.delta(epsilon=FEW_EPSILON)
    rows.append(_row("specialised clones", FEW_EPSILON, printed, true.lower, true.upper))
    return (
        "the specialised clones formula is below what one dataset attains",
        f"k = 4, eps0 = {EPS0:g}, n = {FEW_USERS}, epsilon = {FEW_EPSILON:g}: printed "
        f"{printed:.7f}, attained {true.lower:.7f}, blanket {bound.upper:.7f}",
        printed < true.lower <= bound.upper,
    )


def _row(what: str, at: float, printed: float, lower: Any, upper: Any) -> dict[str, Any]:
    return {"what": what, "at": at, "printed": printed, "lower": lower, "upper": upper}


def _ends(bracket: sa.Bracket) -> str:
    return f"[{bracket.lower:.5e}, {bracket.upper:.5e}]"


def _within(value: float, bracket: sa.Bracket) -> bool:
    return bracket.lower * (1.0 - _ROUND_OFF) <= value <= bracket.upper * (1.0 + _ROUND_OFF)
