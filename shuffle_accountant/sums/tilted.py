"""Messages under their tilts: sigma, the window of aliases, and how far nodes reach."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.rounding import UNIT_ROUNDOFF, Array
from shuffle_accountant.sums import settings
from shuffle_accountant.sums.question import Question, tilted_weights

"""Error of a wave less one, in units of round-off of its argument."""


@dataclass(frozen=True, eq=False)
class Aims:
    """Aims for which rows are tabulated, shape (k,) each.

    Attributes:
        width: width of the profile's bounds relative to the profile, about.
        variance: ``sigma^2``; nan for the one that gives the width if the tilted sum is normal.
        value: ``E T_+`` relative to the scale; nan for the one of a normal sum.
    """

    width: Array
    variance: Array
    value: Array

    def __getitem__(self, rows: NDArray[np.intp]) -> Aims:
        """Some of the rows."""
        return Aims(self.width[rows], self.variance[rows], self.value[rows])


@dataclass(frozen=True, eq=False)
class Scales:
    """Tilts of several rows, and what their sums over nodes are multiplied with.

    Attributes:
        index: index of the row of the question that each row answers, shape (k,).
        theta: the tilt, shape (k,).
        variance: ``sigma^2``, shape (k,).
        log_scale: logarithm of the moment generating function of a message at theta, shape (k,).
        per_message: relative error of a message's weight, shape (k,).
        alias: bounds of what aliases add to the first sum, and to the third per message, (2, k).
    """

    index: NDArray[np.intp]
    theta: Array
    variance: Array
    log_scale: Array
    per_message: Array
    alias: Array

    def __getitem__(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> Self:
        """Some of the rows."""
        values = {x.name: getattr(self, x.name) for x in fields(self)}
        found = {k: x[..., rows] if k == "alias" else x[rows] for k, x in values.items()}
        return replace(self, **found)


@dataclass(frozen=True, eq=False)
class Tilted(Scales):
    """The messages of several rows under their tilts.

    Attributes:
        y: values less their tilted mean, shape (k, m); 0 where the weight is.
        weight: tilted probabilities, shape (k, m).
        sent: the same times r1, shape (k, m).
        mean: tilted mean of the values, shape (k,).
        spread: tilted variance of the values, shape (k,).
        window: ``W = 2 pi / eta``, shape (k,).
        level: nodes are left out if their modulus is below ``e^-level``, shape (k,).
        last: number of the last node, by the normal factor, shape (k,).
    """

    y: Array
    weight: Array
    sent: Array
    mean: Array
    spread: Array
    window: Array
    level: Array
    last: Array

    @property
    def scales(self) -> Scales:
        """The rows without their messages."""
        return Scales(*(getattr(self, x.name) for x in fields(Scales)))

    @property
    def most_sent(self) -> Array:
        """Upper bound of the tilted mean of r1, shape (k,)."""
        return np.asarray(np.sum(self.sent, axis=1) * (1.0 + 1e-9))

    @property
    def step(self) -> Array:
        """Distance eta of nodes."""
        return np.asarray(2.0 * math.pi / self.window)

    @cached_property
    def size(self) -> Array:
        """Upper bound of the tilted mean of ``|Y|``."""
        return np.asarray(np.sum(self.weight * np.abs(self.y), axis=1) * (1.0 + 1e-9))

    @property
    def rounding(self) -> float:
        """Error of sums of products of three waves less one, relative to their arguments."""
        return float(UNIT_ROUNDOFF * (9.0 * self.y.shape[1] + 352.0))

    def off(self, t: Array) -> Array:
        """Absolute error of ``phi`` at t, shape (k, j): waves, their sums, means."""
        own = self.rounding * self.size + 16.0 * UNIT_ROUNDOFF * np.abs(self.mean)
        return np.asarray(own[:, None] * t + 8.0 * UNIT_ROUNDOFF)

    def used(self) -> Tilted:
        """These rows without messages that have no weight in any row."""
        some = self.weight.any(axis=0)
        if some.all():
            return self
        y, weight, sent = (x[:, some] for x in (self.y, self.weight, self.sent))
        return replace(self, y=y, weight=weight, sent=sent)


def tilt_rows(question: Question, aims: Aims, index: NDArray[np.intp], most: float) -> Tilted:
    """Tilt the messages of some rows, and choose sigma and the window.

    Sigma is large enough for a survey of at most ``most`` frequencies of each row.
    """
    rows, users = question.rows[index], question.users
    theta, value, mass = (x[index] for x in (question.theta, question.value, question.mass))
    r1 = rows.each[1]
    weight, log_scale = tilted_weights(theta, value, mass)
    mean = np.sum(weight * value, axis=1)
    y = np.where(weight > 0.0, value - mean[:, None], 0.0)
    spread = np.sum(weight * y**2, axis=1)
    size = np.where(weight > 0.0, np.abs(theta[:, None] * value), 0.0).max(axis=1, initial=0.0)
    variance, relative = _smoothing(theta, users[1] * spread, aims)
    sent = weight * r1
    level = -np.log(settings.NODES.left_out * aims.width * relative)
    third = np.maximum(rows.anchor, 0.0) * users[1] * sent.sum(axis=1)
    while True:
        law = y, weight, sent, theta, mean, spread, variance
        window, alias = _windows(law, users, rows.anchor, -level)
        last = _reach(variance, third, level) * window / (2.0 * math.pi)
        surveyed = last * np.sqrt(spread) * 2.0 * math.pi / window
        over = surveyed / most
        if not np.any((over > 1.0) & (over < math.inf)):
            break
        # frequencies fall with 1 / sigma
        variance = np.where(over > 1.0, variance * (1.1 * over) ** 2, variance)
    count = np.ceil(last)
    largest = np.maximum(np.maximum(1.0 / theta**2, variance), third / theta)
    bound = (count + 2.0) / window * largest
    return Tilted(
        index=index,
        y=y,
        weight=weight,
        sent=sent,
        theta=theta,
        mean=mean,
        spread=spread,
        variance=variance,
        window=window,
        level=np.maximum(level + np.log(bound), 1.0),
        last=count,
        log_scale=log_scale,
        per_message=UNIT_ROUNDOFF
        * (64.0 + min(value.shape[1], 128) + 4.0 * size + 8.0 * np.abs(log_scale)),
        alias=alias,
    )


def _smoothing(theta: Array, variance: Array, aims: Aims) -> tuple[Array, Array]:
    """``sigma^2``, and the approximate value of ``E T_+`` relative to the scale.

    For a normal tilted sum of mean ``2 / theta`` the ratio of ``E S_+`` and the density at 0 is
    the variance times ``1 - b R(b)``, R Mills' ratio.
    """
    from scipy.special import erfcx

    deviation = np.sqrt(variance)
    b = theta * deviation - 2.0 / (theta * deviation)
    mills = math.sqrt(0.5 * math.pi) * erfcx(np.clip(b, -30.0, 1e4) / math.sqrt(2.0))
    ratio = np.where(b > 20.0, 1.0 / (2.0 + b * b), 1.0 - b * mills) * variance
    ratio = np.minimum(np.where(ratio > 0.0, ratio, math.inf), 4.0 / theta**2)
    found = np.where(np.isnan(aims.variance), 0.35 * aims.width * ratio, aims.variance)
    usual = 1.0 / (theta**2 * np.sqrt(2.0 * math.pi * (variance + found + 2.0 / theta**2)))
    return found, np.where(np.isnan(aims.value), usual, aims.value)


def _windows(
    parts: tuple[Array, ...], users: tuple[int, int], anchor: Array, goal: Array
) -> tuple[Array, Array]:
    """The least window whose aliases are below ``e^goal``, and bounds of what they add.

    Returns:
        W, shape (k,); and bounds for the first and the third sum, the latter per message, that hold
        for both numbers of messages and, being log-linear in them, for all between, shape (2, k).
    """
    y, weight, sent, theta, mean, spread, variance = parts
    deviation = np.sqrt(users[1] * spread + variance)
    window = np.zeros((2, theta.size))
    shape = 2, len(settings.NODES.shifts), 2, theta.size
    first, third, delta = (np.empty(shape) for _ in range(3))
    for side, sign in enumerate((-1.0, 1.0)):
        for i, shift in enumerate(settings.NODES.shifts):
            d = shift / deviation
            if side == 0:
                # messages whose weight at theta is below the range of doubles weigh nothing here
                d = np.minimum(d, 0.9 * theta)
            grown = np.expm1(sign * d[:, None] * y)
            change, size = np.sum(weight * grown, axis=1), np.sum(weight * np.abs(grown), axis=1)
            moved = UNIT_ROUNDOFF * (128.0 + y.shape[1]) * (size + d * np.abs(mean) + 1e-3)
            growth = np.log1p(np.maximum(change + moved, -0.5)) + sign * d * mean
            share = np.sum(sent * (1.0 + grown), axis=1) / (1.0 + change) * (1.0 + 1e-6)
            s = theta + sign * d
            for j, n in enumerate(users):
                log = n * growth + 0.5 * variance * (s * s - theta * theta) + 1e-6
                first[side, i, j] = log - 1.0 - np.log(s)
                third[side, i, j] = log + np.log(share)
                delta[side, i, j] = d
        weighed = third[side] + np.log(np.maximum(anchor * np.array(users)[:, None], 1e-300))
        needed = (np.maximum(first[side], weighed) - goal) / delta[side]
        window[side] = np.where(np.isnan(needed), math.inf, needed).max(axis=1).min(axis=0)
    found = np.maximum(window.max(axis=0), 1e-3 / theta)
    # two aliases of each side take about half of the goal; all further ones are negligible
    bounds = []
    for log in (first, third):
        decay = delta * found
        total = np.where(decay > 0.1, np.exp(log - decay) / -np.expm1(-decay), math.inf)
        total = np.where(np.isnan(total), math.inf, total)
        bounds.append(total.max(axis=2).min(axis=1).sum(axis=0) * (1.0 + 1e-6))
    return found, np.stack(bounds)


def _reach(variance: Array, third: Array, level: Array) -> Array:
    """The frequency from which on the normal factor leaves about ``e^-level`` of all sums.

    ``third`` is the weight of the third sum, relative to the first, and all shapes are (k,).
    """
    deviation = np.sqrt(variance)
    log = np.maximum(level + np.log(np.maximum(deviation, third * variance)), 4.0)
    return np.asarray(np.sqrt(2.0 * log / variance))
