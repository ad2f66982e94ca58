"""Pictures of brackets and of published bounds; Matplotlib (extra "plot") is imported when asked.

All functions draw on ``ax``, or on a new figure of pyplot, and return the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.reports.comparison import CERTIFIED
from shuffle_accountant.reports.comparison import compare as compare_bounds
from shuffle_accountant.reports.compiling import accountant_of
from shuffle_accountant.reports.rows import Report
from shuffle_accountant.reports.samplings import compare_samplings
from shuffle_accountant.rounds.protocol import Rounds
from shuffle_accountant.rounds.samplings import SAMPLINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MISSING", "compare", "doublings", "profile", "report", "samplings"]
__all__ = ["MISSING", "compare", "new_axes", "profile", "report"]

MISSING = "plots need Matplotlib: pip install 'shuffle-accountant[plot]'"
"""What to do without Matplotlib."""

# A profile is drawn down to this delta, at so many points.
_SMALLEST_DELTA = 1e-12
_POINTS = 41
_ROUNDS = (1, 2, 4, 8, 16, 32, 64)


def profile(
    subject: Rounds | FourierAccountant,
    *,
    epsilons: ArrayLike | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw delta(epsilon), on a logarithmic scale, as the band between both ends of its bracket.

    Args:
        subject: a round, a `shuffle_accountant.Protocol`, a list of pairs (round, count), or
            everything that an accountant has recorded.
        epsilons: nats, finite, >= 0, shape (m,); by default up to where delta is 1e-12.
        label: for the legend; by default none.
        ax: axes to draw on; by default new ones.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
        ImportError: Matplotlib is not installed.
    """
    accountant = accountant_of(subject)
    if epsilons is None:
        reach = accountant.epsilon(delta=_SMALLEST_DELTA).upper
        epsilons = np.linspace(0.0, reach if 0.0 < reach < np.inf else 1.0, _POINTS)
    curve = accountant.profile(epsilons)
    ax = new_axes(ax)
    # what is 0 cannot be drawn on a logarithmic scale
    shown = curve.upper > 0.0
    upper, x = curve.upper[shown], curve.epsilons[shown]
    lower = np.maximum(curve.lower[shown], 1e-3 * upper.min(initial=1.0))
    (line,) = ax.plot(x, upper, label=label)
    ax.fill_between(x, np.minimum(lower, upper), upper, color=line.get_color(), alpha=0.3)
    ax.set(xlabel="ε", ylabel="δ", yscale="log" if shown.any() else "linear")
    if label is not None:
        ax.legend()
    return ax


def compare(
    rounds_or_protocol: Rounds | None = None,
    /,
    *,
    eps0: float | None = None,
    users: int | None = None,
    delta: float,
    rounds: Sequence[int] = _ROUNDS,
    population: int | None = None,
    categories: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw epsilon against the number of rounds: the certified bracket and every published bound.

    A bound is drawn where it applies and is not 0, and is left out of the legend if that is
    nowhere; one that is not sound is dashed. See `shuffle_accountant.reports.comparison.compare`.

    Args:
        rounds_or_protocol: a round, a `shuffle_accountant.Protocol` or a list of pairs (round,
            count); or None, and ``eps0`` and ``users`` say what happens.
        eps0: local privacy parameter, nats, finite, >= 0.
        users: messages in each round, >= 1.
        delta: of all rounds together, in (0, 1).
        rounds: how many times, each >= 1.
        population: if given, the users of each round are drawn from this many.
        categories: if given, the randomizer is randomized response over this many values.
        ax: axes to draw on; by default new ones.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
        ImportError: Matplotlib is not installed.
    """
    counts = [validate.integer(minimum=1, rounds=count) for count in rounds]
    if not counts:
        raise ValueError("rounds must hold at least one number of rounds, got none")
    ax = new_axes(ax)
    curves: dict[tuple[str, str], list[tuple[int, float, float]]] = {}
    sound: dict[tuple[str, str], bool] = {}
    for count in counts:
        for row in compare_bounds(
            rounds_or_protocol,
            eps0=eps0,
            users=users,
            delta=delta,
            rounds=count,
            population=population,
            categories=categories,
        ):
            if row.epsilon is not None and 0.0 < row.epsilon < np.inf:
                key = row.name, row.form
                lower = row.epsilon if row.lower is None else row.lower
                curves.setdefault(key, []).append((count, lower, row.epsilon))
                sound[key] = row.sound
    for (name, form), points in curves.items():
        x, lower_ends, upper_ends = (np.array(column) for column in zip(*points, strict=True))
        certified = name == CERTIFIED
        (line,) = ax.plot(
            x,
            upper_ends,
            marker="." if certified else "",
            linestyle="-" if sound[name, form] else "--",
            linewidth=2.5 if certified else 1.2,
            label=f"{name} ({form})" if form else name,
        )
        if certified:
            ax.fill_between(x, lower_ends, upper_ends, color=line.get_color(), alpha=0.3)
    ax.set(xlabel="rounds", ylabel=f"ε at δ = {delta:g}")
    if curves:
        ax.set(xscale="log", yscale="log")
        ax.legend(fontsize="small")
    return ax


def report(rows: Report, *, ax: Axes | None = None) -> Axes:
    """Draw how far each measure of a report is from nothing (0) to everything (1) leaked.

    Bars end at the upper end; on a logarithmic scale, from the smallest share down to a decade.
    Measures that do not apply, or have no largest value, are left out.

    Args:
        rows: what `shuffle_accountant.reports.rows` found.
        ax: axes to draw on; by default new ones.

    Raises:
        TypeError: an argument of the wrong type.
        ImportError: Matplotlib is not installed.
    """
    rows = validate.instance(Report, rows=rows)
    shares = {
        f"{row.measure}\n({row.scope})": share
        for row in reversed(rows.rows)
        if (share := row.share) is not None and share > 0.0
    }
    ax = new_axes(ax)
    ax.barh(list(shares), list(shares.values()))
    if shares:
        ax.set(xscale="log", xlim=(0.1 * min(shares.values()), 1.0))
    ax.set(xlabel="share of what could leak")
    ax.tick_params(axis="y", labelsize="small")
    return ax


def samplings(
    *,
    noise_multiplier: float,
    steps: int,
    delta: float,
    epochs: Sequence[int] = (1, 2, 4, 8, 16),
    samplings: Sequence[str] = tuple(SAMPLINGS),
    tolerance: float = 1e-3,
    ax: Axes | None = None,
) -> Axes:
    """Draw epsilon of DP-SGD against epochs, a band between both ends for each sampling.

    Args:
        noise_multiplier: deviation of the noise over the largest norm, finite, > 0.
        steps: of an epoch, >= 1.
        delta: of all epochs together, in (0, 1).
        epochs: how many, each number >= 1.
        samplings: see `shuffle_accountant.reports.samplings.compare_samplings`.
        tolerance: relative width in epsilon of brackets, > 0.
        ax: axes to draw on; by default new ones.

    Raises:
        TypeError: an argument of the wrong type.
        ValueError: an argument outside its range.
        ImportError: Matplotlib is not installed.
    """
    counts = [validate.integer(minimum=1, epochs=count) for count in epochs]
    if not counts:
        raise ValueError("epochs must hold at least one number of epochs, got none")
    rows = [
        compare_samplings(
            noise_multiplier=noise_multiplier,
            steps=steps,
            epochs=count,
            delta=delta,
            samplings=samplings,
            tolerance=tolerance,
        )
        for count in counts
    ]
    ax = new_axes(ax)
    for curve in zip(*rows, strict=True):
        upper = [row.upper for row in curve]
        (line,) = ax.plot(counts, upper, marker=".", label=curve[0].sampling)
        lower = [row.lower for row in curve]
        ax.fill_between(counts, lower, upper, color=line.get_color(), alpha=0.3)
    ax.set(xlabel="epochs", ylabel=f"ε at δ = {delta:g}", xscale="log", yscale="log")
    ax.set_title(
        f"noise multiplier {noise_multiplier:g}, {steps} steps an epoch", fontsize="medium"
    )
    ax.legend(fontsize="small")
    return ax


def doublings(**named: int) -> list[int]:
    """1, 2, 4, … up to a number, which is the last.

    Args:
        **named: the number under its name, >= 1.

    Raises:
        TypeError: no integer.
        ValueError: an integer below 1.
    """
    ((name, last),) = named.items()
    last = validate.integer(minimum=1, **{name: last})
    return [*(2**i for i in range(last.bit_length()) if 2**i < last), last]


def new_axes(ax: Axes | None) -> Axes:
    """The axes given, or new ones.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError(MISSING) from None
    return pyplot.figure(layout="constrained").add_subplot()
