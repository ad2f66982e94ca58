"""Figures of the papers on the shuffle model, computed anew as certified curves.

Each is a list of points (curve, x, lower, upper) and the labels of its axes. That they agree with
the published values, where these are right, is what the repository's benchmarks claim and measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shuffle_accountant.accountant import delta, epsilon
from shuffle_accountant.baselines import alpha_grid, girgis, rdp
from shuffle_accountant.leakage import mutual_information, qif, reidentification
from shuffle_accountant.randomizers.channel import GeneralRandomizer
from shuffle_accountant.randomizers.noise import GaussianRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse
from shuffle_accountant.reports.drawing import curve_style, legend_beside
from shuffle_accountant.reports.samplings import compare_samplings
from shuffle_accountant.rounds.shuffle import ShuffleRound

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Curve, x, lower end (None where only an upper one is known), upper end.
Point = tuple[str, float, float | None, float]
Points = Callable[[], Iterator[Point]]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure of a paper: what it shows, the labels of its axes, and what computes its points.

    The axes are logarithmic, the horizontal one unless it is ``linear``.
    """

    about: str
    x: str
    y: str
    points: Points
    linear: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """All points, by the names of the columns of a CSV file."""
        return [
            {"curve": curve, "x": float(x), "lower": lower, "upper": float(upper)}
            for curve, x, lower, upper in self.points()
        ]

    def draw(self, rows: list[dict[str, Any]], ax: Axes) -> None:
        """Draw the upper ends, a line for each curve, with a band down to the lower ends."""
        for number, curve in enumerate(dict.fromkeys(row["curve"] for row in rows)):
            mine = [row for row in rows if row["curve"] == curve]
            x, upper = [row["x"] for row in mine], [row["upper"] for row in mine]
            ax.plot(x, upper, **curve_style(number), label=curve)
            if all(row["lower"] is not None for row in mine):
                lower = [row["lower"] for row in mine]
                ax.fill_between(x, lower, upper, color=curve_style(number)["color"], alpha=0.2)
        ax.set(xlabel=self.x, ylabel=self.y, yscale="log", title=self.about)
        ax.set_xscale("linear" if self.linear else "log")
        legend_beside(ax)


FIGURES: dict[str, Figure] = {}
"""The figures by the name that the command line takes."""


def _figure(name: str, about: str, **labels: Any) -> Callable[[Points], Points]:
    """Make a function that computes the points a figure of that name."""

    def register(points: Points) -> Points:
        FIGURES[name] = Figure(about=about, points=points, **labels)
        return points

    return register


@_figure("fig1", "one to four rounds, ε0 = 4, n = 10⁴", x="ε", y="δ", linear=True)
def _composition() -> Iterator[Point]:
    one = ShuffleRound(GeneralRandomizer(4.0), users=10_000)
    for rounds in (1, 2, 3, 4):
        for x in np.linspace(0.1, 1.0, 19).tolist():
            found = delta(one, epsilon=x, rounds=rounds)
            yield f"T = {rounds}", x, found.lower, found.upper
            yield f"T = {rounds}, Rényi", x, None, rdp.delta(one, rounds=rounds, epsilon=x)


@_figure("fig2", "a sampled round, 100 of 10⁴ users, ε0 = 3", x="ε", y="δ")
def _sampled() -> Iterator[Point]:
    one = ShuffleRound(GeneralRandomizer(3.0), users=100, population=10_000)
    for x in np.geomspace(1e-3, 0.1, 15).tolist():
        found = one.delta(epsilon=x)
        yield "explicit pair", x, found.lower, found.upper
        for points in (50, 100, 200):
            value = alpha_grid.delta(one, epsilon=x, points=points)
            yield f"grid of {points} intervals", x, None, value


@_figure("fig3", "sampled rounds, 1,000 of 10⁵ users, ε0 = 3, δ = 10⁻⁵", x="rounds", y="ε")
def _many_rounds() -> Iterator[Point]:
    one = ShuffleRound(GeneralRandomizer(3.0), users=1000, population=100_000)
    for rounds in (10, 31, 100, 316, 1000, 3162, 10_000):
        found = epsilon(one, delta=1e-5, rounds=rounds)
        yield "certified", rounds, found.lower, found.upper
        theirs = girgis.epsilon(
            eps0=3.0,
            users=1000,
            population=100_000,
            delta=1e-5,
            rounds=rounds,
            upsilon_factor=0.5,
        )
        yield "Girgis et al.", rounds, None, theirs


@_figure("fig4", "randomized response, k = 4, γ = 1/4, n = 1,000", x="δ", y="ε")
def _response() -> Iterator[Point]:
    krr = RandomizedResponse.from_gamma(categories=4, gamma=0.25)
    for rounds in (1, 4, 16):
        for name, reduction, variant in (
            ("weak", "blanket", None),
            ("clones", "clones", None),
            ("strong", "strong", "exact"),
            ("strong, as published", "strong", "paper"),
        ):
            one = ShuffleRound(krr, users=1000, reduction=reduction, variant=variant)
            for x in np.logspace(-7, -4, 5).tolist():
                found = epsilon(one, delta=x, rounds=rounds)
                yield f"T = {rounds}, {name}", x, found.lower, found.upper


@_figure("fig5", "shuffled Gaussian noise, σ = 2", x="ε", y="δ")
def _gaussian() -> Iterator[Point]:
    for users in (1, 2, 7, 10_000, 1_000_000):
        one = ShuffleRound(GaussianRandomizer(2.0), users=users, reduction="example")
        deviation = math.sqrt(math.expm1(0.25) / users)  # of the loss, about
        for x in (deviation * np.linspace(0.5, 2.5, 9)).tolist():
            found = one.delta(epsilon=x)
            yield f"n = {users:,}", x, found.lower, found.upper


@_figure("dpsgd", "one epoch of DP-SGD, 1,000 steps, δ = 10⁻⁸", x="noise multiplier", y="ε")
def _batches() -> Iterator[Point]:
    for sigma in (0.6, 0.85, 1.0, 1.4, 2.0, 3.0, 6.0):
        for row in compare_samplings(noise_multiplier=sigma, steps=1000, delta=1e-8):
            yield row.sampling, sigma, row.lower, row.upper


@_figure("qif", "chance to guess a user's value, k = 2", x="users", y="posterior vulnerability")
def _guessing() -> Iterator[Point]:
    for p in (1.0, 0.9, 0.8, 0.7, 0.6):
        for n in range(1, 201, 3):
            value = qif.posterior_vulnerability_krr_shuffle(users=n, categories=2, p=p)
            yield f"p = {p}", n, value, value


@_figure(
    "reidentification", "chance to name the target's message, ε0 = 1", x="users", y="probability"
)
def _naming() -> Iterator[Point]:
    for k in (2, 10):
        krr = RandomizedResponse(categories=k, eps0=1.0)
        for n in (2, 3, 5, 10, 20, 50, 100, 1000):
            found = reidentification.bracket(krr, users=n)
            yield f"randomized response, k = {k}", n, found.lower, found.upper
            clones = reidentification.bound(krr, users=n, method="clones")
            yield f"clones, k = {k}", n, None, clones.upper


@_figure("mutual-information", "a steep target among flat others, 10 messages", x="users", y="nats")
def _information() -> Iterator[Point]:
    flat = np.full(10, 0.1)
    steep = 1.0 / np.arange(1, 11)
    steep /= steep.sum()
    for n in (10**i for i in range(1, 10)):
        place = mutual_information.position(steep, flat, users=n)
        yield "position of the target's message", n, place.lower, place.upper
        own = mutual_information.message(steep, flat, users=n)
        yield "the target's message", n, own.lower, own.upper
