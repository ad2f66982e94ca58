"""Claim: the chance to guess one shuffled user's value is exact at any size, in seconds.

Jurado, Gonze, Alvim and Palamidessi, 'Analyzing the Shuffle Model Through the Lens of Quantitative
Information Flow' (CSF 2023): its figures 2 to 7 and the numbers in its text. The paper lists
histograms, up to n = 1000, and knows no faster way; here are values up to n = 1e12.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import Any

from benchmarks.claims import Claim, Note, Outcome, compact, interleave
from shuffle_accountant.leakage import qif

# Figures 2, 4 and 7: categories, most users, probabilities of the truth.
CURVES = {
    "2": (2, 200, (1.0, 0.9, 0.8, 0.7, 0.6)),
    "4": (5, 100, (1.0, 0.8, 0.6, 0.4)),
    "7": (4, 100, (1.0, 0.8, 0.6)),
}
ALL_BUT_ONE_USERS, ALL_BUT_ONE_P = 201, (0.9, 0.8, 0.7, 0.6)  # figure 3; p = 1 gives 1
SIZES = (2, 3, 4, 5)  # figures 5 and 6
USERS = (10, 20, 50, 100, 200, 500, 1000, 10**4, 10**6, 10**9, 10**12)

SHUFFLE, KRR, ALL_BUT_ONE = "shuffle", "k-RR and shuffle", "all but one"
# Printed values that are right: the measure, n, k, p or the others' count of a, value, digits.
PUBLISHED = (
    (KRR, 200, 2, 1.0, 0.5282, 4),
    (KRR, 200, 2, 0.9, 0.5225, 4),
    (KRR, 200, 2, 0.6, 0.5056, 4),
    (KRR, 2, 2, 0.9, 0.7, 1),
    (SHUFFLE, 100, 3, 1.0, 0.3826, 4),
    (SHUFFLE, 1000, 3, 1.0, 0.3488, 4),
    (ALL_BUT_ONE, 201, 2, 0, 0.52111, 5),
    (ALL_BUT_ONE, 201, 2, 100, 0.52116, 5),
)
# Largest settings of partitions that a second affords.
COUNTED = ((20, 4), (60, 5), (200, 3), (30, 30))

TIMED, MOST_SECONDS = (10**6, 100), 2.0
TIMED_TOGETHER, MOST_TOGETHER = (2, 5, 10, 100), 3.0
LARGE = tuple(itertools.product((10**8, 10**10, 10**12), (2, 10, 10**3, 10**6)))


def run(quick: bool, note: Note) -> Outcome:
    """All figures; fewer points and repetitions when quick."""
    note("figures")
    rows = [*_curves(12 if quick else 1), *_all_but_one(40 if quick else 4), *_sizes()]
    published = [abs(_value(*case[:4]) - case[4]) * 10.0 ** case[5] for case in PUBLISHED]
    worst = max(range(len(published)), key=published.__getitem__)
    note("integer partitions")
    gap = max(
        abs(
            qif.posterior_vulnerability_shuffle(users=n, categories=k)
            / float(qif.partition_vulnerability_shuffle(users=n, categories=k))
            - 1.0
        )
        for n, k in (COUNTED[:2] if quick else COUNTED)
    )
    users, categories = TIMED
    calls = {
        "one": functools.partial(
            qif.posterior_vulnerability_shuffle, users=users, categories=categories
        ),
        "together": lambda: [
            qif.posterior_vulnerability_shuffle(users=users, categories=k) for k in TIMED_TOGETHER
        ],
        "large": lambda: [
            qif.posterior_vulnerability_shuffle(users=n, categories=k) for n, k in LARGE
        ],
    }
    timings = interleave(calls, 1 if quick else 5, note=note)
    large = timings["large"].result
    sound = all(1.0 / k <= value <= 1.0 for (_, k), value in zip(LARGE, large, strict=True))
    at = PUBLISHED[worst]
    claims = [
        Claim(
            name="published",
            text="the numbers in the paper's text that are right are met to their last digit",
            measured=f"largest deviation {published[worst]:.2f} units of the last digit "
            f"({at[0]}, n = {at[1]}, k = {at[2]}: {at[4]})",
            holds=published[worst] <= 0.5 + 1e-6,
        ),
        Claim(
            name="partitions",
            text="agrees with the paper's exact sum over integer partitions within 1e-13",
            measured=f"relative difference at most {gap:.1e}",
            holds=gap <= 1e-13,
        ),
        Claim(
            name="speed",
            text=f"n = {compact(users)}, k = {categories} takes under {MOST_SECONDS:g} s",
            measured=str(timings["one"]),
            holds=timings["one"].median < MOST_SECONDS,
        ),
        Claim(
            name="speed, more",
            text=f"n = {compact(users)}, k = 2, 5, 10 and 100 together take under "
            f"{MOST_TOGETHER:g} s",
            measured=str(timings["together"]),
            holds=timings["together"].median < MOST_TOGETHER,
        ),
        Claim(
            name="large",
            text=f"n up to 1e12, k up to 1e6, {len(LARGE)} values together: under "
            f"{MOST_TOGETHER:g} s, between 1/k and 1",
            measured=f"{timings['large']}; n = 1e12, k = 1e6: {large[-1]:.9e}",
            holds=sound and timings["large"].median < MOST_TOGETHER,
        ),
    ]
    return Outcome(claims, rows, functools.partial(_draw, rows))


def _value(measure: str, users: int, categories: int, p: float) -> float:
    """A vulnerability; for all-but-one the last number is the count of a at p = 0.8."""
    if measure == SHUFFLE:
        return qif.posterior_vulnerability_shuffle(users=users, categories=categories)
    if measure == ALL_BUT_ONE:
        return qif.all_but_one_vulnerability(users=users, p=0.8, known=int(p))
    return qif.posterior_vulnerability_krr_shuffle(users=users, categories=categories, p=p)


def _row(figure: str, users: int, k: int, **cells: Any) -> dict[str, Any]:
    blank = {"p": "", "known": "", "value": "", "alone": "", "printed form": "", "three terms": ""}
    return {"figure": figure, "users": users, "categories": k} | blank | cells


def _curves(step: int) -> list[dict[str, Any]]:
    """Figures 2, 4 and 7: randomized response with shuffling, and alone, over n."""
    rows = []
    for figure, (k, most, probabilities) in CURVES.items():
        for p, n in itertools.product(probabilities, range(1, most + 1, step)):
            cells: dict[str, Any] = {
                "p": p,
                "value": _value(KRR, n, k, p),
                "alone": qif.posterior_vulnerability_krr(categories=k, p=p),
            }
            if figure == "7" and n >= 6:  # k ln k
                cells["printed form"] = qif.printed_vulnerability_krr_shuffle(
                    users=n, categories=k, p=p
                )
            rows.append(_row(figure, n, k, **cells))
    return rows


def _all_but_one(step: int) -> list[dict[str, Any]]:
    """Figure 3: all other values known."""
    n = ALL_BUT_ONE_USERS
    return [
        _row(
            "3",
            n,
            2,
            p=p,
            known=known,
            value=qif.all_but_one_vulnerability(users=n, p=p, known=known),
        )
        for p, known in itertools.product(ALL_BUT_ONE_P, range(0, n, step))
    ]


def _sizes() -> list[dict[str, Any]]:
    """Figures 5 and 6: shuffling alone, the printed form with f = 1, and three terms."""
    return [
        _row(
            "5 and 6",
            n,
            k,
            value=qif.posterior_vulnerability_shuffle(users=n, categories=k),
            **{
                "printed form": qif.printed_vulnerability_shuffle(users=n, categories=k),
                "three terms": qif.asymptotic_vulnerability_shuffle(users=n, categories=k),
            },
        )
        for k, n in itertools.product(SIZES, USERS)
    ]


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = figure.subplots(2, 3)
    for name, axes in zip(("2", "3", "4", "7", "5 and 6"), panels.flat, strict=False):
        _draw_curves(axes, name, [row for row in rows if row["figure"] == name])
    excess = [row for row in rows if row["figure"] == "5 and 6"]
    for k in SIZES:
        line = [row for row in excess if row["categories"] == k]
        users = [row["users"] for row in line]
        panels[1, 2].plot(users, [row["value"] - 1.0 / k for row in line], label=f"k = {k}")
    panels[1, 2].set(
        xscale="log", yscale="log", xlabel="users", title="excess over the prior's 1/k"
    )
    panels[1, 2].legend(fontsize=7)
    figure.savefig(path, dpi=150)


def _draw_curves(axes: Any, name: str, rows: list[dict[str, Any]]) -> None:
    """One line for each p, or k: exact values, dotted the printed form, dashed k-RR alone."""
    key = "categories" if name == "5 and 6" else "p"
    across = "known" if name == "3" else "users"
    for value in dict.fromkeys(row[key] for row in rows):
        line = [row for row in rows if row[key] == value]
        label = f"{'k' if key == 'categories' else 'p'} = {value}"
        (curve,) = axes.plot(
            [row[across] for row in line], [row["value"] for row in line], label=label
        )
        for column, style in (("printed form", ":"), ("alone", "--")):
            drawn = [row for row in line if row[column] != ""]
            axes.plot(
                [row[across] for row in drawn],
                [row[column] for row in drawn],
                style,
                color=curve.get_color(),
                linewidth=1,
            )
    axes.set(xlabel=across, ylabel="posterior vulnerability", title=f"figure {name}")
    if name == "5 and 6":
        axes.set(xscale="log", title="figures 5 and 6; dotted: printed form, f = 1")
    axes.legend(fontsize=7)
