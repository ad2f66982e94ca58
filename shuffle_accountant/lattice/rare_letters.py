"""Letters that next to nothing depends on, and what they add at most.

With L the sum of n i.i.d. values whose law has a mass of 1 or less, U the expectation of L_+ and S
that of sums without some letters, of mass a for each message:

* Letters below a value, those above it of mass M. Of n messages j are below with a mass of a^j for
  each choice of j; others in their places are nowhere lower, and have M^j. So
  ``U <= sum of binomial(n, j) (a / M)^j S = S (1 + a / M)^n``.
* Any letters, g the expectation of their positive part and p the mass of values that are not
  negative. With L' the sum of n - 1 messages,

      U <= S + n g + n a E (L')_+,    p E (L')_+ <= U,

  the latter as one more message that is not negative lowers no sum.

Both are of the form ``U <= (S + n gain) / (1 - n rare)``, and so are both together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant.numerics.normal import normal_excess
from shuffle_accountant.numerics.rounding import Array

__all__ = ["RareLetters", "rare_letters"]

# Letters that far out, in deviations of the sum, are left out if they are rare.
_FAR_OUT = 4.0
# More than sums of masses are off.
_ROUNDED = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class RareLetters:
    """Letters that are left out at several alpha, and what they add: see the module.

    Attributes:
        kept: the others, shape (k, m).
        rare: what sums with these are more, relative to all and per message, shape (k,).
        gain: and what they are more besides, per message, shape (k,).
    """

    kept: NDArray[np.bool_]
    rare: Array
    gain: Array


def rare_letters(
    value: Array, mass: Array, users: tuple[int, int], below: Array, above: Array
) -> RareLetters:
    """Leave out letters that are far out and rare.

    Args:
        value: their values, shape (k, m).
        mass: their masses, of shape (k, m); 0 for letters that are none of these.
        users: least and largest number of messages.
        below: about what those below may add, relative to the profile, shape (k,).
        above: the same of those above.
    """
    kept, low = _without_low(value, mass, users, below)
    rare = low / (mass.sum(axis=1) - low * _ROUNDED)
    mass = np.where(kept, mass, 0.0)
    others, high, gain = _without_high(value, mass, users, above)
    return RareLetters(kept & others, (rare + high) * _ROUNDED, gain * _ROUNDED)


def _without_low(
    value: Array, mass: Array, users: tuple[int, int], share: Array
) -> tuple[NDArray[np.bool_], Array]:
    """All but low letters, and the mass of these."""
    order = np.argsort(value, axis=1)
    ascending, chance = (np.take_along_axis(x, order, axis=1) for x in (value, mass))
    chance = np.cumsum(chance, axis=1)
    far = ascending < -_FAR_OUT * _deviation(value, mass, users[0])[:, None]
    kept, last = _all_but_first(order, far & (users[1] * chance <= share[:, None]))
    return kept, _at(chance, last)


def _without_high(
    value: Array, mass: Array, users: tuple[int, int], share: Array
) -> tuple[NDArray[np.bool_], Array, Array]:
    """All but high letters, what these add relative to all, and what they add besides."""
    order = np.argsort(-value, axis=1)
    descending, chance = (np.take_along_axis(x, order, axis=1) for x in (value, mass))
    gain = np.cumsum(chance * np.maximum(descending, 0.0), axis=1)
    rare = np.cumsum(chance, axis=1) / np.where(value >= 0.0, mass, 0.0).sum(axis=1)[:, None]
    # about what there is to lose; a wrong guess makes bounds wide or windows long
    widest = _deviation(value, mass, users[1])
    wanted = share * widest * normal_excess(-users[1] * np.sum(mass * value, axis=1) / widest)
    few = (users[1] * rare <= share[:, None]) & (users[1] * gain <= wanted[:, None])
    far = descending > _FAR_OUT * _deviation(value, mass, users[0])[:, None]
    kept, last = _all_but_first(order, far & few)
    return kept, _at(rare, last), _at(gain, last)


def _deviation(value: Array, mass: Array, users: int) -> Array:
    """About the deviation of the sum."""
    mean = np.sum(mass * value, axis=1)
    square = np.sum(mass * value**2, axis=1)
    return np.asarray(np.sqrt(users * np.maximum(square - mean**2, 0.0)))


def _all_but_first(
    order: NDArray[np.intp], first: NDArray[np.bool_]
) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Which letters are not among the first ones in that order, and the last one that is, or -1."""
    count = first.sum(axis=1)
    kept = np.empty(order.shape, dtype=bool)
    np.put_along_axis(kept, order, np.arange(order.shape[1]) >= count[:, None], axis=1)
    return kept, count - 1


def _at(sums: Array, last: NDArray[np.intp]) -> Array:
    """Sums up to the last one, 0 if there is none."""
    found = np.take_along_axis(sums, np.maximum(last, 0)[:, None], axis=1)[:, 0]
    return np.asarray(np.where(last >= 0, found, 0.0))
