"""Claim: at equal privacy, what to deploy depends on the users and categories; here is the ranking.

Root mean squared error of a frequency against epsilon, delta = 1e-8, one round, for every candidate
of `sa.design.frequency`: n = 1e4 and 1e6 users, k = 10 and 1000 categories. Between the curator's
noise (trusted) and randomizers alone (no shuffler). Errors are averaged over the categories.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, compact

USERS = (10**4, 10**6)
CATEGORIES = (10, 1000)
EPSILONS = (0.3, 1.0, 3.0)
QUICK_EPSILONS = (1.0,)
DELTA = 1e-8
# Designs decide by brackets of this relative width, and as far may errors be apart for nothing.
TOLERANCE = 1e-2
# As measured: up to here noise messages are the most accurate of all that is shuffled.
SEVERAL_WIN = 1.0


def run(quick: bool, note: Note) -> Outcome:
    """All designs; one epsilon when quick."""
    rows: list[dict[str, Any]] = []
    for users in USERS:
        for categories in CATEGORIES:
            for epsilon in QUICK_EPSILONS if quick else EPSILONS:
                note(f"n = {compact(users)}, k = {categories}, ε = {epsilon:g}")
                design = sa.design.frequency(
                    users=users,
                    categories=categories,
                    target_epsilon=epsilon,
                    delta=DELTA,
                    tolerance=TOLERANCE,
                )
                rows += [
                    {
                        "users": users,
                        "categories": categories,
                        "epsilon": epsilon,
                        "mechanism": row.name,
                        "place": row.place,
                        "rmse": row.rmse_average,
                        "rmse_at_0": row.rmse,
                        "messages": row.messages,
                        "bits": row.bits,
                        "certified": row.bracket.upper,
                    }
                    for row in (*design.central, *design.rows, *design.local)
                ]
    return Outcome(_claims(rows), rows, functools.partial(_draw, rows))


def _settings(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Rows of one question each."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["users"], row["categories"], row["epsilon"]), []).append(row)
    return list(found.values())


def _best(rows: list[dict[str, Any]], place: str, *, single: bool = False) -> dict[str, Any] | None:
    """The row of least error."""
    chosen = [
        row
        for row in rows
        if row["place"] == place and not (single and not _one_message(row["mechanism"]))
    ]
    return min(chosen, key=lambda row: row["rmse"], default=None)


def _one_message(name: str) -> bool:
    return not any(word in name for word in ("noise messages", "augmented", "bit per category"))


def _claims(rows: list[dict[str, Any]]) -> list[Claim]:
    settings = _settings(rows)
    margins, gains, winners = [], [], []
    for setting in settings:
        central, single = _best(setting, "central"), _best(setting, "shuffle", single=True)
        shuffled, local = _best(setting, "shuffle"), _best(setting, "local")
        if central is not None and single is not None:
            margins.append(single["rmse"] / central["rmse"])
        if shuffled is not None and local is not None:
            gains.append(local["rmse"] / shuffled["rmse"])
        # beyond, one message wins where users are few for the categories: n = 1e4, k = 1000
        if shuffled is not None and shuffled["epsilon"] <= SEVERAL_WIN:
            told = f"{compact(shuffled['users'])}, {shuffled['categories']}, {shuffled['epsilon']}"
            winners.append((told, shuffled["mechanism"]))
    several = [name for _, name in winners if not _one_message(name)]
    target = max(row["certified"] / row["epsilon"] for row in rows)
    return [
        Claim(
            name="single messages and the curator",
            text="no mechanism of one message per user is more accurate than the trusted curator",
            measured=f"at least {min(margins):.3g} times the curator's error",
            holds=min(margins) > 1.0 - TOLERANCE,
        ),
        Claim(
            name="shufflers help",
            text="the best shuffled mechanism is more accurate than the best without a shuffler",
            measured=f"{min(gains):.3g} to {max(gains):.3g} times",
            holds=min(gains) > 1.0,
        ),
        Claim(
            name="several messages win",
            text=f"up to ε = {SEVERAL_WIN:g} the most accurate shuffled mechanism sends several "
            "messages per user",
            measured=f"in {len(several)} of {len(winners)} settings; "
            + "; ".join(sorted(set(several))),
            holds=len(several) == len(winners),
        ),
        Claim(
            name="equal privacy",
            text="every mechanism is certified to be within its target",
            measured=f"at most {target:.6f} of the target",
            holds=target <= 1.0,
        ),
    ]


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 8.0), layout="constrained")
    axes = figure.subplots(len(USERS), len(CATEGORIES))
    styles = {"shuffle": "-", "local": ":", "central": "--"}
    names = sorted({row["mechanism"] for row in rows})
    for i, users in enumerate(USERS):
        for j, categories in enumerate(CATEGORIES):
            ax = axes[i, j]
            for place, style in styles.items():
                for number, name in enumerate(names):
                    points = sorted(
                        (row["epsilon"], row["rmse"])
                        for row in rows
                        if (row["users"], row["categories"]) == (users, categories)
                        and (row["place"], row["mechanism"]) == (place, name)
                    )
                    if points:
                        x, y = zip(*points, strict=True)
                        label = name if place == "shuffle" else f"{name} ({place})"
                        ax.plot(x, y, style, marker=".", color=f"C{number}", label=label)
            ax.set(
                xscale="log",
                yscale="log",
                xlabel=f"ε at δ = {DELTA:g}",
                ylabel="root mean squared error",
                title=f"n = {compact(users)}, k = {categories}",
            )
    axes[0, 0].legend(fontsize="xx-small")
    figure.savefig(path, dpi=150)
