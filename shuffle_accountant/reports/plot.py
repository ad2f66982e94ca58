"""Pictures of brackets and of published bounds; Matplotlib (extra "plot") is imported when asked.

All functions draw on ``ax``, or on a new figure of pyplot, and return the axes. Curves are upper
ends, with a band down to the lower ends; how wide the band is stands in a panel below the axes.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import PrivacyProfile, format_ends
from shuffle_accountant.reports import drawing
from shuffle_accountant.reports.comparison import CERTIFIED, ComparisonRow, asked_round
from shuffle_accountant.reports.comparison import compare as compare_bounds
from shuffle_accountant.reports.drawing import MISSING
from shuffle_accountant.reports.rows import Report, ReportRow, accountant_of
from shuffle_accountant.reports.samplings import compare_samplings
from shuffle_accountant.rounds.protocol import Rounds
from shuffle_accountant.rounds.samplings import SAMPLINGS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["MISSING", "compare", "doublings", "profile", "report", "samplings"]

# Delta down to which a profile is drawn by default, and its number of points.
SMALLEST_DELTA = 1e-12
_POINTS = 41
# Relative amount by which rounding alone may raise an upper end above its value without a leak.
_ROUND_OFF = 1e-12
_ROUNDS = (1, 2, 4, 8, 16, 32, 64)

# One bound at several numbers of rounds.
_Curve = list[tuple[int, ComparisonRow]]


def profile(
    subject: Rounds | FourierAccountant,
    *,
    epsilons: ArrayLike | None = None,
    delta: float | None = None,
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw delta(epsilon), on a logarithmic scale, as the band between both ends of its bracket.

    Args:
        subject: a round, a `shuffle_accountant.Protocol`, a list of pairs (round, count), or
            everything that an accountant has recorded.
        epsilons: nats, finite, >= 0, shape (m,); by default up to where delta is 1e-12, or the
            ``delta`` that is asked for if that is smaller.
    """
    accountant = accountant_of(subject)
    asked = None if delta is None else validate.open_unit(delta=delta)
    if epsilons is None:
        reach = accountant.epsilon(delta=min(SMALLEST_DELTA, asked or 1.0)).upper
        epsilons = np.linspace(0.0, reach if 0.0 < reach < np.inf else 1.0, _POINTS)
    curve = accountant.profile(epsilons)
    ax = drawing.new_axes(ax)
    ax.set(xlabel="ε (nats)", ylabel="δ (probability)")
    # a second curve on the same axes has a style and a line of the title of its own
    first = not ax.get_lines()
    told = drawing.protocol_told(accountant.protocol)
    before = ax.get_title().splitlines()
    drawing.titled(ax, *dict.fromkeys([*before, told if label is None else f"{label}: {told}"]))
    shown = curve.upper > 0.0
    if not shown.any():
        drawing.nothing_drawn(ax, _why_nothing(accountant, curve))
        return ax
    ax.set(yscale="log")
    # what is 0 cannot be drawn on a logarithmic scale
    lower = np.maximum(curve.lower[shown], 1e-3 * curve.upper[shown].min())
    style = drawing.certified_style() if first else drawing.curve_style(len(ax.get_lines()))
    line = {"markevery": max(len(curve) // 8, 1)} | ({} if label is None else {"label": label})
    drawing.band(ax, curve.epsilons[shown], lower, curve.upper[shown], style, **line)
    if asked is not None:
        _mark(ax, accountant, asked)
    ax.grid(alpha=0.25)
    drawing.legend_beside(ax)
    return ax


def _why_nothing(accountant: FourierAccountant, curve: PrivacyProfile) -> str:
    if not len(accountant):
        return "δ = 0 at every ε: there are no rounds"
    least = float(curve.epsilons.min())
    if accountant.delta(epsilon=0.0).upper == 0.0:
        return "δ = 0 at every ε: nothing leaks"
    return f"δ = 0 at every ε that was asked for, from {least:g}"


def _mark(ax: Axes, accountant: FourierAccountant, delta: float) -> None:
    """The point of a delta, with its epsilon."""
    found = accountant.epsilon(delta=delta)
    finite = found.upper < math.inf
    label = f"ε = {' to '.join(found.ends())}" if finite else "ε is infinite"
    ax.plot(
        [found.upper] * finite,
        [delta] * finite,
        linestyle="none",
        marker="X",
        markersize=10.0,
        color="#d55e00",
        markeredgecolor="white",
        zorder=4.0,
        label=f"{label} at δ = {delta:g}",
    )


def _refused(row: ComparisonRow) -> str | None:
    """Why there is no point for an answer, if there is none."""
    if row.epsilon is None:
        return f"needs {row.condition}"
    if 0.0 < row.epsilon < math.inf:
        return None
    return "ε is 0" if row.epsilon == 0.0 else "ε is infinite"


def _why_left_out(curve: _Curve) -> str | None:
    """Why there are fewer points than numbers of rounds, if there are."""
    refused = [(f"{count:,}", reason) for count, row in curve if (reason := _refused(row))]
    if not refused or len(refused) == len(curve):
        return refused[0][1] if refused else None
    return f"at {', '.join(count for count, _ in refused)} rounds: {refused[0][1]}"


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

    Bounds that do not apply are named beside the axes, with the condition that is not met; those
    that do not hold for all they accept are marked as not sound.

    Args:
        rounds_or_protocol: a round, a `shuffle_accountant.Protocol` or a list of pairs (round,
            count); or None, and ``eps0`` and ``users`` say what happens.
    """
    counts = [validate.integer(minimum=1, rounds=count) for count in rounds]
    if not counts:
        raise ValueError("rounds must hold at least one number of rounds, got none")
    one = asked_round(
        rounds_or_protocol, eps0=eps0, users=users, population=population, categories=categories
    )
    curves: dict[tuple[str, str], _Curve] = defaultdict(list)
    for count in counts:
        for row in compare_bounds(one, delta=delta, rounds=count):
            curves[row.name, row.form].append((count, row))
    ax = drawing.new_axes(ax)
    drawing.titled(ax, drawing.protocol_told(one).removesuffix("; 1 round"))
    ax.set(xlabel="rounds (number)", ylabel=f"ε (nats) at δ = {delta:g}")
    if all(_refused(row) for curve in curves.values() for _, row in curve):
        drawing.nothing_drawn(
            ax, f"{_why_left_out(next(iter(curves.values())))} at every number of rounds"
        )
        return ax
    _log_axes(ax, counts)
    for number, curve in enumerate(curves.values()):
        _draw_bound(ax, number, [(count, row) for count, row in curve if not _refused(row)])
    drawing.plain_ticks(ax.yaxis)
    ax.grid(alpha=0.25)
    drawing.legend_beside(ax, _left_out(curves))
    return ax


def _draw_bound(ax: Axes, number: int, curve: _Curve) -> None:
    if not curve:
        return
    one, x = curve[0][1], [count for count, _ in curve]
    label = drawing.bound_named(one.name, one.form) + ("" if one.sound else ", not sound")
    upper = [row.epsilon for _, row in curve if row.epsilon is not None]
    lower = [row.lower for _, row in curve if row.lower is not None]
    if one.name != CERTIFIED:
        ax.plot(x, upper, **drawing.curve_style(number), label=label)
        return
    # the second bracket, of any randomizer with this ε0, is a bracket too
    style = (
        drawing.curve_style(number) | {"linewidth": 2.0} if number else drawing.certified_style()
    )
    drawing.band(ax, x, lower, upper, style, label=label)


def _left_out(curves: dict[tuple[str, str], _Curve]) -> Iterator[str]:
    """Bounds without some of their points, those with the same reason in one line."""
    named: dict[str, list[str]] = defaultdict(list)
    for key, curve in curves.items():
        reason = _why_left_out(curve)
        if reason is not None:
            named[reason].append(drawing.bound_named(*key))
    for reason, names in named.items():
        yield f"{', '.join(names)}: {reason}"


def _log_axes(ax: Axes, counts: Sequence[int]) -> None:
    """Logarithmic axes, with numbers of rounds as such, where powers would be written."""
    from matplotlib.ticker import NullLocator

    ax.set(xscale="log", yscale="log")
    few = sorted(set(counts))
    step = math.ceil(len(few) / 8)
    ax.set_xticks(few[::step], [f"{count:,}" for count in few[::step]])
    ax.xaxis.set_minor_locator(NullLocator())


def report(rows: Report, *, ax: Axes | None = None) -> Axes:
    """Draw how far each measure of a report is from nothing (0) to everything (1) leaked.

    Bars end at the upper end; on a logarithmic scale, from the smallest share down to a decade.
    The number itself stands beside its bar. Measures that do not apply, or have no largest value,
    are named without a bar.
    """
    rows = validate.instance(Report, rows=rows)
    ax = drawing.new_axes(ax)
    drawing.titled(
        ax, *filter(None, [rows.about]), f"shares of what could leak, at δ = {rows.delta:g}"
    )
    ax.set(xlabel="share of what could leak: from 0, nothing, to 1, everything")
    places = list(enumerate(reversed(rows.rows)))  # heights: the first row is on top
    # an upper end above the value without a leak by round-off alone is none
    shares = {
        place: row.share
        for place, row in places
        if row.share and row.upper and row.upper - row.nothing > _ROUND_OFF * row.nothing
    }
    if shares:
        ax.set(xscale="log", xlim=(0.1 * min(shares.values()), 1.0))
        ax.barh(list(shares), list(shares.values()), color="#56b4e9", edgecolor="black")
        ax.grid(axis="x", alpha=0.25)
    else:
        drawing.nothing_drawn(ax, "every share is 0: nothing leaks" if rows.rows else "no measures")
    ax.set_yticks(
        range(len(places)),
        [f"{row.measure}\n" + textwrap.fill(f"({row.scope})", 40) for _, row in places],
        fontsize="x-small",
    )
    ax.set_ylim(-0.6, len(places) - 0.4)
    beside = ax.get_yaxis_transform()
    for place, row in places:
        number = textwrap.fill(_number(row), 44)
        ax.text(1.01, place, number, transform=beside, va="center", fontsize="x-small")
    return ax


def _number(row: ReportRow) -> str:
    """Label beside a bar: the ends with their unit, and the value if everything leaked."""
    if row.upper is None:
        return row.value()
    limit = "limit not known" if row.everything is None else "no limit"
    if row.share is not None:
        limit = f"of {row.everything:.4g}"
    return f"{row.value()} {row.unit}, {limit}"


def samplings(
    *,
    noise_multiplier: float,
    steps: int,
    delta: float,
    epochs: Sequence[int] = (1, 2, 4, 8, 16),
    samplings: Sequence[str] = SAMPLINGS,
    bands: int = 4,
    tolerance: float = 1e-3,
    ax: Axes | None = None,
) -> Axes:
    """Draw epsilon of DP-SGD against epochs, a band between both ends for each sampling."""
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
            bands=bands,
            tolerance=tolerance,
        )
        for count in counts
    ]
    ax = drawing.new_axes(ax)
    drawing.titled(
        ax, f"DP-SGD with noise multiplier {noise_multiplier:g}, {steps:,} steps an epoch"
    )
    ax.set(xlabel="epochs (number)", ylabel=f"ε (nats) at δ = {delta:g}")
    left_out = []
    for number, curve in enumerate(zip(*rows, strict=True)):
        name = curve[0].sampling
        some = [(c, r) for c, r in zip(counts, curve, strict=True) if 0.0 < r.upper < math.inf]
        if len(some) < len(counts):
            left_out.append(f"{name}: ε is {'0' if curve[0].upper == 0.0 else 'infinite'}")
        if some:
            last = some[-1][1]
            ends = " to ".join(format_ends(last.lower, last.upper))
            label = f"{name}, {last.batches}; after {some[-1][0]:,}: {ends}"
            x, lower, upper = zip(*((c, r.lower, r.upper) for c, r in some), strict=True)
            drawing.band(ax, x, lower, upper, drawing.curve_style(number), label=label)
    if not ax.get_lines():
        drawing.nothing_drawn(ax, "; ".join(left_out))
        return ax
    _log_axes(ax, counts)
    drawing.plain_ticks(ax.yaxis)
    ax.grid(alpha=0.25)
    drawing.legend_beside(ax, left_out)
    return ax


def doublings(**named: int) -> list[int]:
    """1, 2, 4, … up to a named number >= 1, which is the last."""
    ((name, last),) = named.items()
    last = validate.integer(minimum=1, **{name: last})
    return [*(2**i for i in range(last.bit_length()) if 2**i < last), last]
