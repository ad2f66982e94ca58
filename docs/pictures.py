"""Draws the pictures of the README and of the first page: python docs/pictures.py."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

import shuffle_accountant as sa
from shuffle_accountant.reports.comparison import compare

EPS0, DELTA = 4.0, 1e-6
USERS = np.unique(np.geomspace(1, 1e9, 37).astype(int))
BOUNDS = {
    "strong_clones_closed_form": ("closed form of 2022", "--"),
    "clones_closed_form": ("closed form of 2021", "-."),
    "erlingsson": ("Erlingsson et al. 2019", ":"),
}


def amplification() -> Figure:
    """Epsilon of one message against the number of users."""
    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.add_subplot()
    rounds = [sa.ShuffleRound(sa.GeneralRandomizer(EPS0), users=int(n)) for n in USERS]
    axes.axhline(EPS0, color="0.45", linewidth=1, label="without a shuffler")
    rows = [compare(one, delta=DELTA) for one in rounds]
    for name, (label, style) in BOUNDS.items():
        found = [next((r.epsilon for r in row if r.name == name), None) for row in rows]
        points = [(n, e) for n, e in zip(USERS, found, strict=True) if e is not None]
        if points:
            axes.plot(*zip(*points, strict=True), style, color="0.3", label=label)
    certified = [one.epsilon(delta=DELTA).upper for one in rounds]
    axes.plot(USERS, certified, color="#0072b2", linewidth=2.5, label="certified")
    axes.set(
        title=f"One message with ε0 = {EPS0:g} through a shuffler",
        xlabel="users (number)",
        ylabel=f"ε (nats) at δ = {DELTA:g}",
        xscale="log",
        yscale="log",
    )
    axes.grid(alpha=0.25)
    axes.legend(loc="lower left")
    return figure


if __name__ == "__main__":
    from pathlib import Path

    folder = Path(__file__).resolve().parent / "pictures"
    folder.mkdir(exist_ok=True)
    amplification().savefig(folder / "amplification.png", dpi=130)
