"""Pictures of brackets and of published bounds; Matplotlib (extra "plot") is imported when asked.

All functions draw on ``ax``, or on a new figure of pyplot, and return the axes. Curves are upper
ends, with a band down to the lower ends; how wide the band is stands in a panel below the axes.
"""

from __future__ import annotations

import math
import textwrap
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import PrivacyProfile, format_ends
from shuffle_accountant.reports.comparison import CERTIFIED, ComparisonRow, asked_round
from shuffle_accountant.reports.comparison import compare as compare_bounds
from shuffle_accountant.reports.drawing import (
    MISSING,
    band,
    bound_named,
    certified_style,
    curve_style,
    legend_beside,
    new_axes,
    nothing_drawn,
    plain_ticks,
    protocol_told,
    titled,
)
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
    ax = new_axes(ax)
    ax.set(xlabel="ε (nats)", ylabel="δ (probability)")
    # a second curve on the same axes has a style and a line of the title of its own
    first = not ax.get_lines()
    told = protocol_told(accountant.protocol)
    before = ax.get_title().splitlines()
    titled(ax, *dict.fromkeys([*before, told if label is None else f"{label}: {told}"]))
    shown = curve.upper > 0.0
    if not shown.any():
        nothing_drawn(ax, _why_nothing(accountant, curve))
        return ax
    ax.set(yscale="log")
    # what is 0 cannot be drawn on a logarithmic scale
    lower = np.maximum(curve.lower[shown], 1e-3 * curve.upper[shown].min())
    style = certified_style() if first else curve_style(len(ax.get_lines()))
    line = {"markevery": max(len(curve) // 8, 1)} | ({} if label is None else {"label": label})
    band(ax, curve.epsilons[shown], lower, curve.upper[shown], style, **line)
    if asked is not None:
        _mark(ax, accountant, asked)
    ax.grid(alpha=0.25)
    legend_beside(ax)
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
    if not found.upper < math.inf:
        label = f"ε is infinite at δ = {delta:g}"
    else:
        label = f"ε = {' to '.join(found.ends())} at δ = {delta:g}"
    at = [found.upper] if found.upper < math.inf else []
    ax.plot(
        at,
        [delta] * len(at),
        linestyle="none",
        marker="X",
        markersize=10.0,
        color="#d55e00",
        markeredgecolor="white",
        zorder=4.0,
        label=label,
    )


@dataclass
class _Curve:
    """Epsilon by one bound at several numbers of rounds, and reasons where it has none."""

    sound: bool
    points: list[tuple[int, float, float]] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)

    def add(self, count: int, row: ComparisonRow) -> None:
        """One answer: a point, or why there is none."""
        if row.epsilon is None:
            self.refused.append((count, f"needs {row.condition}"))
        elif not 0.0 < row.epsilon < math.inf:
            self.refused.append((count, "ε is 0" if row.epsilon == 0.0 else "ε is infinite"))
        else:
            lower = row.epsilon if row.lower is None else row.lower
            self.points.append((count, lower, row.epsilon))

    def left_out(self) -> str | None:
        """Why there are fewer points than numbers of rounds, if there are."""
        if not self.refused:
            return None
        counts, reasons = zip(*self.refused, strict=True)
        if not self.points:
            return str(reasons[0])
        return f"at {', '.join(f'{count:,}' for count in counts)} rounds: {reasons[0]}"


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
    curves: dict[tuple[str, str], _Curve] = {}
    for count in counts:
        for row in compare_bounds(one, delta=delta, rounds=count):
            curve = curves.setdefault((row.name, row.form), _Curve(row.sound))
            curve.add(count, row)
    ax = new_axes(ax)
    titled(ax, protocol_told(one).removesuffix("; 1 round"))
    ax.set(xlabel="rounds (number)", ylabel=f"ε (nats) at δ = {delta:g}")
    if not any(curve.points for curve in curves.values()):
        nothing_drawn(ax, f"{curves[next(iter(curves))].left_out()} at every number of rounds")
        return ax
    ax.set(xscale="log", yscale="log")
    _round_ticks(ax, counts)
    for number, (key, curve) in enumerate(curves.items()):
        _draw_bound(ax, number, key, curve)
    plain_ticks(ax.yaxis)
    ax.grid(alpha=0.25)
    legend_beside(ax, _left_out(curves))
    return ax


def _draw_bound(ax: Axes, number: int, key: tuple[str, str], curve: _Curve) -> None:
    if not curve.points:
        return
    x, lower, upper = (np.array(column) for column in zip(*curve.points, strict=True))
    label = bound_named(*key) + ("" if curve.sound else ", not sound")
    if key[0] != CERTIFIED:
        ax.plot(x, upper, **curve_style(number), label=label)
        return
    # the second bracket, of any randomizer with this ε0, is a bracket too
    own = number == 0
    style = certified_style() if own else curve_style(number) | {"linewidth": 2.0}
    band(ax, x, lower, upper, style, label=label)


def _left_out(curves: dict[tuple[str, str], _Curve]) -> Iterator[str]:
    """Bounds without some of their points, those with the same reason in one line."""
    named: dict[str, list[str]] = defaultdict(list)
    for key, curve in curves.items():
        reason = curve.left_out()
        if reason is not None:
            named[reason].append(bound_named(*key))
    for reason, names in named.items():
        yield f"{', '.join(names)}: {reason}"


def _round_ticks(ax: Axes, counts: Sequence[int]) -> None:
    """Numbers of rounds as such, where a logarithmic scale would write powers."""
    from matplotlib.ticker import NullLocator

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
    ax = new_axes(ax)
    titled(ax, *filter(None, [rows.about]), f"shares of what could leak, at δ = {rows.delta:g}")
    ax.set(xlabel="share of what could leak: from 0, nothing, to 1, everything")
    shares = {place: row.share for place, row in _places(rows) if row.share and _leaks(row)}
    if shares:
        ax.set(xscale="log", xlim=(0.1 * min(shares.values()), 1.0))
        ax.barh(list(shares), list(shares.values()), color="#56b4e9", edgecolor="black")
        ax.grid(axis="x", alpha=0.25)
    else:
        nothing_drawn(ax, "every share is 0: nothing leaks" if rows.rows else "no measures")
    ax.set_yticks(
        [place for place, _ in _places(rows)],
        [f"{row.measure}\n" + textwrap.fill(f"({row.scope})", 40) for _, row in _places(rows)],
        fontsize="x-small",
    )
    ax.set_ylim(-0.6, len(rows.rows) - 0.4)
    for place, row in _places(rows):
        ax.text(
            *(1.01, place, textwrap.fill(_number(row), 44)),
            transform=ax.get_yaxis_transform(),
            va="center",
            fontsize="x-small",
        )
    return ax


def _places(rows: Report) -> list[tuple[int, ReportRow]]:
    """The rows with their heights, the first on top."""
    return list(enumerate(reversed(rows.rows)))


def _leaks(row: ReportRow) -> bool:
    """Whether the upper end is above the measure's value without a leak by more than round-off."""
    return row.upper is not None and row.upper - row.nothing > _ROUND_OFF * row.nothing


def _number(row: ReportRow) -> str:
    """Label beside a bar: the ends with their unit, and the value if everything leaked."""
    if row.upper is None:
        return row.value()
    if row.share is None:
        limit = "no limit" if row.everything is not None else "limit not known"
    else:
        limit = f"of {row.everything:.4g}"
    return f"{row.value()} {row.unit}, {limit}"


def samplings(
    *,
    noise_multiplier: float,
    steps: int,
    delta: float,
    epochs: Sequence[int] = (1, 2, 4, 8, 16),
    samplings: Sequence[str] = tuple(SAMPLINGS),
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
    ax = new_axes(ax)
    titled(ax, f"DP-SGD with noise multiplier {noise_multiplier:g}, {steps:,} steps an epoch")
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
            lower = [row.lower for _, row in some]
            upper = [row.upper for _, row in some]
            band(ax, [c for c, _ in some], lower, upper, curve_style(number), label=label)
    if not ax.get_lines():
        nothing_drawn(ax, "; ".join(left_out))
        return ax
    ax.set(xscale="log", yscale="log")
    _round_ticks(ax, counts)
    plain_ticks(ax.yaxis)
    ax.grid(alpha=0.25)
    legend_beside(ax, left_out)
    return ax


def doublings(**named: int) -> list[int]:
    """1, 2, 4, … up to a number, which is the last.

    Args:
        **named: the number under its name, >= 1.
    """
    ((name, last),) = named.items()
    last = validate.integer(minimum=1, **{name: last})
    return [*(2**i for i in range(last.bit_length()) if 2**i < last), last]
