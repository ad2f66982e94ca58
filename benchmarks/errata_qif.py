"""Claim: what 'the Shuffle Model Through the Lens of Quantitative Information Flow' prints wrongly.

Each erratum of Jurado, Gonze, Alvim and Palamidessi (CSF 2023) is a claim that what is printed is
not so, with what is true instead. The theorems themselves hold, in the ranges that are given here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.claims import Claim, Note, Outcome
from shuffle_accountant.leakage import qif

# Section V: users, probability of the truth.
ABO_USERS, ABO_P = 201, 0.8
SIZES = (2, 3, 4, 5, 9, 100)
MANY = 10**9
STRICT = (3, 4, 5)
CHECKED_TO = 119

# Sums and products of a few numbers of order one.
_ROUND_OFF = 1e-12

Verdict = tuple[str, str, bool]


def run(quick: bool, note: Note) -> Outcome:
    """All of them; they take a second, quick or not."""
    rows: list[dict[str, Any]] = []
    claims = []
    for name, judge in (
        ("Section IV-B", _section_4b),
        ("Table IV", _table_4),
        ("equation 10", _equation_10),
        ("Section V", _section_5),
        ("exponentially", _exponentially),
        ("f = 1", _factor_one),
        ("multinomials", _multinomials),
        ("Appendix B", _appendix_b),
        ("Definition 7", _definition_7),
        ("Proposition 21", _proposition_21),
        ("monotone", _monotone),
        ("Discussion", _discussion),
    ):
        note(name)
        text, measured, holds = judge()
        claims.append(Claim(name=name, text=text, measured=measured, holds=bool(holds)))
        rows.append({"where": name, "measured": measured})
    return Outcome(claims, rows)


def _section_4b() -> Verdict:
    value = qif.posterior_vulnerability_shuffle(users=200, categories=2)
    text = "the shuffle alone has 0.5282 at n = 200 (Section IV-B says 0.5286 as well)"
    return text, f"{value:.7f}", round(value, 4) == 0.5282


def _table_4() -> Verdict:
    p, q = 0.75, 0.25
    printed = [p * p * q, (p**3 + 2 * p * q * q) / 3, (2 * p * p * q + q**3) / 3, p * q * q]
    true = [
        qif.reduced_krr_channel(users=3, categories=2, p=p).probability(z, given=(2, 1))
        for z in ((3, 0), (2, 1), (1, 2), (0, 3))
    ]
    expected = [printed[0], 3 * printed[1], 3 * printed[2], printed[3]]
    text = "Table IV: rows 2 and 3 do not sum to 1; without the division by 3 they are right"
    right = max(abs(a - b) for a, b in zip(true, expected, strict=True)) < _ROUND_OFF
    return text, f"printed row 2 sums to {sum(printed):g}", right and abs(sum(printed) - 1) > 0.1


def _equation_10() -> Verdict:
    others = stats.binom(ABO_USERS - 1, 1.0 - ABO_P).pmf(np.arange(-1, ABO_USERS + 1))
    # the histogram has j of a: one more if the target's message says a
    given_a = ABO_P * others[:-1] + (1.0 - ABO_P) * others[1:]
    given_b = (1.0 - ABO_P) * others[:-1] + ABO_P * others[1:]
    printed = 0.5 * (given_a.max() + given_b.max())
    swapped = 0.5 * float(np.maximum(given_a, given_b).sum())
    value = qif.all_but_one_vulnerability(users=ABO_USERS, p=ABO_P, known=0)
    text = "equation 10 has its sum and maximum swapped: in the right order it gives the 0.52111"
    measured = f"as printed {printed:.5f}, swapped {swapped:.7f}, here {value:.7f}"
    return text, measured, printed < 0.5 and abs(swapped - value) < _ROUND_OFF


def _section_5() -> Verdict:
    count = len(qif.datasets(3, 2))
    text = "Section V: three bits are one of 2^3 secrets, not of 2^8"
    return text, f"{count} datasets", count == 2**3


def _exponentially() -> Verdict:
    few, many = (
        qif.posterior_vulnerability_krr_shuffle(users=n, categories=2, p=0.9) - 0.5
        for n in (10**4, 10**6)
    )
    slope = math.log(many / few) / math.log(100.0)
    text = "vulnerability does not fall exponentially: its excess falls like n^(-1/2)"
    return text, f"exponent {slope:.5f} from n = 1e4 to 1e6", abs(slope + 0.5) < 1e-4


def _factor_one() -> Verdict:
    ratios = {}
    for k in SIZES:
        true = qif.posterior_vulnerability_shuffle(users=MANY, categories=k) - 1.0 / k
        printed = qif.printed_vulnerability_shuffle(users=MANY, categories=k) - 1.0 / k
        ratios[k] = printed / true
    text = "equations 14 to 16 with f = 1 are 14 % (k = 4) and 9 % (5) too high, too low from 9 on"
    measured = ", ".join(f"k = {k}: {ratio - 1.0:+.1%}" for k, ratio in ratios.items())
    holds = abs(ratios[4] - 1.144) < 1e-3 and abs(ratios[5] - 1.091) < 1e-3
    return text, measured, holds and all((ratio < 1.0) == (k >= 9) for k, ratio in ratios.items())


def _multinomials() -> Verdict:
    counts = [math.comb(n + 4, 4) for n in (1000, 2000)]
    text = "Section VI-A: terms grow like n^(k - 1), not linearly"
    growth = counts[1] / counts[0]
    return text, f"k = 5: {growth:.2f} times for twice the users", abs(growth - 2**4) < 0.1


def _appendix_b() -> Verdict:
    shape = (8, 8, 1, 1, 1, 1)
    allowed = [k for k in range(2, 9) if shape in set(qif.partitions(20, k))]
    text = "Appendix B: (8, 8, 1, 1, 1, 1) is no partition for k = 4, but from k = 6 on"
    return text, f"for k = {', '.join(map(str, allowed))}", allowed == [6, 7, 8]


def _definition_7() -> Verdict:
    channel = qif.shuffle_channel(users=3, categories=2)
    value = channel.probability((0, 1, 0), given=(0, 0, 1))
    text = "Section II-D: a permutation of aab has probability 1/3, as in Definition 7, not 1/3!"
    return text, f"{value:.6f}", abs(value - 1.0 / 3.0) < _ROUND_OFF


def _proposition_21() -> Verdict:
    n, k, p = 3, 2, 0.1
    most = qif.posterior_vulnerability_shuffle(users=n, categories=k)
    printed = most * p + (1.0 - most) * (1.0 - p)
    gain = qif.single_target_gain(users=n, categories=k)
    full = qif.krr_channel(users=n, categories=k, p=p)
    true = (full @ qif.shuffle_channel(users=n, categories=k)).posterior_vulnerability(gain=gain)
    low = qif.posterior_vulnerability_krr_shuffle_low(users=n, categories=k, p=p)
    text = "Propositions 15 and 21 need p >= 1/k; below, the rarest value is the best guess"
    measured = f"n = 3, k = 2, p = 0.1: printed {printed:.3f}, channel {true:.3f}, here {low:.3f}"
    return text, measured, abs(true - low) < _ROUND_OFF and printed < true - 0.1


def _monotone() -> Verdict:
    def values(k: int) -> list[float]:
        return [
            qif.posterior_vulnerability_shuffle(users=n, categories=k)
            for n in range(1, CHECKED_TO + 1)
        ]

    two = values(2)
    pairs = all(abs(two[n - 1] - two[n]) < _ROUND_OFF for n in range(2, CHECKED_TO, 2))
    drop = min(min(-np.diff(values(k))) for k in STRICT)
    text = (
        "falling in n is strict for k = 3, 4, 5, n < 120, but not for k = 2: n = 2m and 2m + 1 tie"
    )
    return (
        text,
        f"smallest fall for k = 3, 4, 5: {drop:.1e}; k = 2 ties: {pairs}",
        pairs and drop > 0,
    )


def _discussion() -> Verdict:
    rng = np.random.default_rng(2023)
    gap = 0.0
    for inputs, messages in ((2, 2), (3, 2), (2, 3), (3, 3)):
        local = rng.dirichlet(np.ones(messages), size=inputs)
        full = qif.local_channel(local, users=3)
        after = full @ qif.shuffle_channel(users=3, categories=messages)
        before = qif.shuffle_channel(users=3, categories=inputs) @ full
        gap = max(gap, float(np.max(np.abs(after.matrix - before.matrix))))
    text = "shuffling commutes with any local channel (the paper believes so): equal matrices"
    return text, f"random channels on 3 users: largest difference {gap:.1e}", gap < _ROUND_OFF
