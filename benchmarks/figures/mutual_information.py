"""Claim: the information in shuffled messages is an integral of one variable, exact for any n.

The figures of 'Mutual Information Bounds in the Shuffle Model', with certified brackets where the
paper has Monte Carlo samples: P = Q (its Figure 2), P and Q apart and the best decoys (Figure 3),
randomized response (the experiment of its Example IV.1), n from 10 to 1e9. And what in it is not
so: the constant of Theorem 14, the value that Example IV.1 calls attained, "intractable".
"""

from __future__ import annotations

import functools
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, compact, relative_width
from shuffle_accountant.leakage import mutual_information as mi

USERS = tuple(10**i for i in range(1, 10))
QUICK_USERS = (10, 1000, 10**6)
LETTERS = 10
SPREAD = (0.5, 0.3, 0.15, 0.05)  # P of the best decoys
EPS0, CATEGORIES = 1.0, 4
# Position leakage, input leakage: what the universal bounds are judged at.
EPS0S = (0.01, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0)
BINARY_USERS = 400
SAMPLES, QUICK_SAMPLES, SEED = 400_000, 20_000, 20251

Array = NDArray[np.float64]


def zipf(letters: int) -> Array:
    """The law proportional to 1/rank."""
    law = 1.0 / np.arange(1.0, letters + 1.0)
    return np.asarray(law / law.sum())


def uniform(letters: int) -> Array:
    """The uniform law."""
    return np.full(letters, 1.0 / letters)


def run(quick: bool, note: Note) -> Outcome:
    """All curves, then the errata; fewer n and samples when quick."""
    rows: list[dict[str, Any]] = []
    note("curves")
    claims = [_curves(QUICK_USERS if quick else USERS, rows)]
    for name, judge in (
        ("speed", _speed),
        ("best decoys", _decoys),
        ("position leakage", _position),
        ("sharp constant", _sharp),
        ("Example IV.1", _example),
        ("count of noise samples", _lemma),
    ):
        note(name)
        text, measured, holds = judge()
        claims.append(Claim(name=name, text=text, measured=measured, holds=holds))
    note("Monte Carlo")
    claims.append(_monte_carlo(QUICK_SAMPLES if quick else SAMPLES))
    return Outcome(claims, rows, functools.partial(_draw, rows))


def _curves(users: tuple[int, ...], rows: list[dict[str, Any]]) -> Claim:
    """Exact brackets beside the paper's leading terms."""
    flat, steep, spread = uniform(LETTERS), zipf(LETTERS), np.array(SPREAD)
    best = mi.optimal_decoy(spread)
    krr = sa.RandomizedResponse(categories=CATEGORIES, eps0=EPS0)
    limits = mi.response_constants(categories=CATEGORIES, eps0=EPS0)
    divergence = mi.shuffled_divergence(steep, flat, users=1).upper
    for n in users:
        for name, p, q in (
            ("P = Q uniform", flat, flat),
            ("P = Q Zipf", steep, steep),
            ("P Zipf, Q uniform", steep, flat),
            ("decoys like P", spread, spread),
            ("best decoys", spread, best),
        ):
            told = mi.message(p, q, users=n)
            rows.append(_row(f"I(Y1;Z), {name}", n, told, mi.leading_constant(p, q) / n))
        place = mi.position(steep, flat, users=n)
        first = mi.position_expansion(steep, flat).first
        rows.append(_row("I(K;Z), P Zipf, Q uniform", n, place, divergence + first / n))
        bound = mi.input_bound(krr, users=n)
        rows.append(_row("I(X1;Z|X_-1), k-RR, blanket", n, bound, limits.blanket / n))
        loose = mi.first_order(eps0=EPS0).paper / n
        any_one = mi.input_bound(sa.GeneralRandomizer(eps0=EPS0), users=n)
        rows.append(_row("I(X1;Z|X_-1), any randomizer", n, any_one, loose))
    judged = [row for row in rows if "any" not in row["what"]]
    widest = max(judged, key=lambda row: row["upper"] / row["lower"])
    far = [row for row in judged if row["users"] >= 10**6]
    off = max(abs(row["leading"] / row["upper"] - 1.0) for row in far)
    width = widest["upper"] / widest["lower"] - 1.0
    return Claim(
        name="curves",
        text="every bracket is narrower than 1e-9, and at n >= 1e6 the leading terms agree to 1e-4",
        measured=f"widest {width:.0e} ({widest['what']}, n = {compact(widest['users'])}), leading "
        f"terms off by {off:.0e}",
        holds=width < 1e-9 and off < 1e-4,
    )


def _speed() -> tuple[str, str, bool]:
    p, q, n = zipf(100), zipf(100)[::-1], 10**6
    start = time.perf_counter()
    place, told = mi.position(p, q, users=n), mi.message(p, q, users=n)
    seconds = time.perf_counter() - start
    deviation = mi.shuffled_divergence(p, q, users=n).lower
    widths = place.width / deviation, relative_width(told)
    return (
        "n = 1e6, 100 letters: both leakages under 1 s, brackets at most 1e-3 of the deviation "
        "from the limit",
        f"{seconds:.2f} s, {widths[0]:.0e} (place), {widths[1]:.0e} (message)",
        seconds < 1.0 and max(widths) <= 1e-3,
    )


def _decoys() -> tuple[str, str, bool]:
    """Theorem 6: proportional to sqrt(P(1 - P)), not to sqrt(P) and not P."""
    from scipy.optimize import minimize

    p, n = np.array(SPREAD), 1000
    root = np.sqrt(p)
    best = mi.message(p, mi.optimal_decoy(p), users=n)
    roots, same = (mi.message(p, q, users=n) for q in (root / root.sum(), p))

    def told(free: Array) -> float:
        weights = np.exp(np.append(free, 0.0))
        return float(mi.message(p, weights / weights.sum(), users=n)) * n

    weights = np.exp(np.append(minimize(told, np.zeros(3), method="BFGS").x, 0.0))
    apart = float(np.max(np.abs(weights / weights.sum() - mi.optimal_decoy(p))))
    return (
        "decoys proportional to sqrt(P(1-P)) tell least; sqrt(P), and P itself, tell more",
        f"n = {n}: numeric optimum within {apart:.0e} of it, sqrt(P) {roots / best - 1:.1%} more, "
        f"P {same / best - 1:.0%} more",
        apart < 1e-3 and best.upper < roots.lower < same.lower,
    )


def _position() -> tuple[str, str, bool]:
    """Theorem 11's 2 eps0 is at least twice the information."""
    ratios = []
    for eps0 in EPS0S:
        krr = sa.RandomizedResponse(categories=2, eps0=eps0)
        bounds = mi.position_bounds(krr, users=10**6)
        ratios.append(bounds.paper / bounds.least)
    return (
        "2 eps0 bounds the position leakage at least twice too high, and 1/eps0 times for small "
        "eps0",
        ", ".join(f"{r:.3g} times at {e:g}" for e, r in zip(EPS0S, ratios, strict=True)),
        min(ratios) >= 2.0 and all(r >= 1 / e for e, r in zip(EPS0S, ratios, strict=True)),
    )


def _sharp() -> tuple[str, str, bool]:
    """Theorem 14's first-order constant against the sharp one."""
    eps0, n = math.log(4.0), 10**8  # 1 + e^(eps0/2) = 3 values
    krr = sa.RandomizedResponse(categories=3, eps0=eps0)
    attained = n * mi.input_bound(krr, users=n).lower
    constants = mi.first_order(eps0=eps0)
    tight = abs(attained / constants.sharp - 1.0)
    small = mi.first_order(eps0=0.1)
    below = all(
        mi.universal_bounds(eps0=e, users=n).least < mi.first_order(eps0=e).paper / n for e in EPS0S
    )
    return (
        "(e^eps0 - 1)/2n is not tight: (e^(eps0/2) - 1)^2/2n is, and finite n needs no remainder",
        f"eps0 = log 4: paper {constants.paper:.4g}, sharp {constants.sharp:.4g}, attained "
        f"{attained:.6f}; at eps0 = 0.1 {small.paper / small.sharp:.0f} times too high",
        tight < 1e-6 and below,
    )


def conditional_information(eps0: float, users: int) -> float:
    """``I(X1; Z | X_-1)`` for two values and uniform inputs, by counting."""
    keep = 1.0 / (1.0 + math.exp(-eps0))
    count = np.arange(users)
    total = 0.0
    for ones in range(users):  # of the others' inputs
        weight = stats.binom.pmf(ones, users - 1, 0.5)
        if weight < 1e-18:
            continue
        first = stats.binom.pmf(count, ones, keep)
        second = stats.binom.pmf(count, users - 1 - ones, 1.0 - keep)
        crowd = np.convolve(first, second)[:users]
        zero, one = (
            np.append(chance * crowd, 0.0) + np.append(0.0, (1.0 - chance) * crowd)
            for chance in (keep, 1.0 - keep)
        )
        mean = 0.5 * (zero + one)
        for law in (zero, one):
            sent = law > 0.0
            total += 0.5 * weight * float(law[sent] @ np.log(law[sent] / mean[sent]))
    return float(total)


def _example() -> tuple[str, str, bool]:
    """The rate called attained belongs to I(X1; Z), not to what an informed adversary learns."""
    constants = mi.response_constants(categories=2, eps0=1.0)
    counted = BINARY_USERS * conditional_information(1.0, BINARY_USERS)
    return (
        "Example IV.1's rate for uniform others is that of I(X1;Z); given X_-1 it is higher by "
        "1/(1-(p-q)^2), and both are below the blanket's",
        f"k = 2, eps0 = 1: printed {constants.unconditional:.4f}, given X_-1 "
        f"{constants.conditional:.4f} (n = {BINARY_USERS}, counted: {counted:.4f}), blanket "
        f"{constants.blanket:.4f}, (e-1)/2 = {mi.first_order(eps0=1.0).paper:.4f}",
        abs(counted / constants.conditional - 1.0) < 0.01
        and constants.unconditional < 0.9 * counted < counted < constants.blanket,
    )


def _lemma() -> tuple[str, str, bool]:
    """Lemma 1 counts noise samples, not messages."""
    krr, n = sa.RandomizedResponse(categories=CATEGORIES, eps0=EPS0), 100
    right, off = mi.input_bound(krr, users=n), mi.input_bound(krr, users=n + 1)
    return (
        "Lemma 1 with n samples of noise is about n + 1 messages: only the leading term is so",
        f"n = {n}: {right.upper:.6e} with n - 1 samples, {off.upper:.6e} with n",
        off.upper < right.lower and abs(n * (1 - off / right) - 1.0) < 0.1,
    )


def _monte_carlo(samples: int) -> Claim:
    """Example III.2's estimate, with its error."""
    p, q, n = zipf(LETTERS), uniform(LETTERS), 1000
    rng = np.random.default_rng(SEED)
    counts = rng.multinomial(n, q, size=samples)
    mean = counts @ (p / q) / n
    values = mean * np.log(mean) - (mean - 1.0)  # the same expectation, a smaller deviation
    estimate, error = float(values.mean()), float(values.std()) / math.sqrt(samples)
    true = mi.shuffled_divergence(p, q, users=n)
    return Claim(
        name="Monte Carlo",
        text="Example III.2 needs no Monte Carlo: the integral has twelve digits, samples two",
        measured=f"n = {n}: bracket {relative_width(true):.0e} wide, {compact(samples)} samples "
        f"good to {error / true.upper:.0e}, off by {(estimate - true) / error:.1f} deviations",
        # four deviations: 6e-5 of all seeds
        holds=relative_width(true) < 1e-12 and abs(estimate - true) < 4.0 * error,
    )


def _row(what: str, users: int, bracket: sa.Bracket, leading: float) -> dict[str, Any]:
    return {
        "what": what,
        "users": users,
        "lower": bracket.lower,
        "upper": bracket.upper,
        "leading": leading,
    }


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = ("P = Q", "P and Q apart; best decoys", "k-ary randomized response")
    for axes, title in zip(figure.subplots(1, 3), panels, strict=True):
        for what in dict.fromkeys(row["what"] for row in rows):
            if _panel(what) != title:
                continue
            mine = [row for row in rows if row["what"] == what]
            users = [row["users"] for row in mine]
            (curve,) = axes.plot(users, [row["upper"] for row in mine], label=what)
            colour = curve.get_color()
            axes.plot(users, [row["leading"] for row in mine], ":", color=colour)
        axes.set(xscale="log", yscale="log", xlabel="n", ylabel="nats", title=title)
        axes.legend(fontsize=7, title="dotted: leading term", title_fontsize=7)
    figure.savefig(path, dpi=150)


def _panel(what: str) -> str:
    if "P = Q" in what:
        return "P = Q"
    return "k-ary randomized response" if "X1" in what else "P and Q apart; best decoys"
