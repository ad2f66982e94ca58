"""Training with correlated noise: matrix mechanisms whose records are dealt to bins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.settings import GAUSSIAN
from shuffle_accountant.reductions.allocation import allocation
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.reductions.matrix import banded, bands_are_a_pair, tree_of_noise
from shuffle_accountant.rounds.base import Round, needed, reduced_once
from shuffle_accountant.rounds.mechanisms import GaussianMechanism

MOST_BINS, MOST_BANDS, MOST_EPOCHS = 10_000, 200, 10**6
_WIDE = (
    "correlated noise: the covariance is bounded from both sides by simpler ones, those of chains "
    "over the bins"
)


def sqrt_coefficients(*, bands: int) -> tuple[float, ...]:
    """First coefficients of the square-root factorization of prefix sums, ``1, 1/2, 3/8, …``.

    They are those of the power series of ``(1 - x)^(-1/2)``.

    Args:
        bands: how many, in 1 … 200.
    """
    bands = validate.integer(minimum=1, maximum=MOST_BANDS, bands=bands)
    return tuple(accumulate(range(1, bands), lambda c, k: c * (2 * k - 1) / (2 * k), initial=1.0))


@dataclass(frozen=True, kw_only=True)
class MatrixMechanism(Round):
    """A run that releases ``C x + z``: sums of the steps' contributions with correlated noise.

    It is DP-FTRL and banded matrix factorization with batches by balls in bins: every record is
    dealt to one of the bins, uniformly and independently of all else, and takes part in that bin's
    step of every epoch. C is the encoder: its rows are released in order, and z is white noise.

    Adjacency: zero-out, one record against a null record that contributes nothing. Upper ends hold
    for contributions that depend on earlier outputs. With a tree or two bands both ends are tight;
    with more bands lower ends are some percent below the truth, and a warning says so. Rounds of a
    protocol deal anew.

    Steps at least b apart that are drawn independently (b-min-sep) are not covered; a fixed
    partition into b groups is `CyclicPoisson`.

    Args:
        coefficients: the first column of a Toeplitz encoder, 1 to 200 numbers, not all 0, such as
            `sqrt_coefficients`.
        tree: in their place, the encoder of a binary tree all of whose nodes are released, one tree
            for each epoch.
        noise_multiplier: deviation of the white noise over the largest norm of a contribution, in
            [0.05, 1e6].
        bins: number of steps of an epoch, 1 to 10,000; a power of 2 with a tree.
        epochs: how often the deal is gone through, each record in the same bin; several epochs need
            no fewer bins than coefficients.
        normalised: whether the coefficients are divided by their 2-norm, so that the noise
            multiplier is that of one participation. A tree is taken as it is.
    """

    kind: ClassVar[str] = "matrix"
    adjacency = Adjacency.ZERO_OUT

    coefficients: Sequence[float] | None = None
    tree: bool = False
    noise_multiplier: float
    bins: int
    epochs: int = 1
    normalised: bool = True

    def __post_init__(self) -> None:
        tree, coefficients = validate.flag(tree=self.tree), self.coefficients
        if tree is (coefficients is not None):
            raise ValueError(
                "coefficients must be given, or tree=True, and not both, got "
                f"coefficients={validate.shown(coefficients)}, tree={tree}"
            )
        bins = validate.integer(minimum=1, maximum=MOST_BINS, bins=self.bins)
        epochs = validate.integer(minimum=1, maximum=MOST_EPOCHS, epochs=self.epochs)
        column = None if coefficients is None else _column(coefficients)
        if tree and bins & (bins - 1):
            raise ValueError(f"bins must be a power of 2 with tree=True, got {bins}")
        if column is not None and epochs > 1 and len(column) > bins:
            raise ValueError(
                f"bins must be at least the number of coefficients with epochs={epochs}, got "
                f"bins={bins} and {len(column)} coefficients"
            )
        noise = validate.noise_multiplier(noise_multiplier=self.noise_multiplier)
        least = GAUSSIAN.least_sigma
        if not least <= noise <= 1e6:
            raise ValueError(
                f"noise_multiplier must be a number in [{least}, 1e+06], got {noise!r}"
            )
        self._hold(
            coefficients=column,
            tree=tree,
            noise_multiplier=noise,
            bins=bins,
            epochs=epochs,
            normalised=validate.flag(normalised=self.normalised),
        )
        # norm of what a record contributes to all outputs, in deviations of the noise
        squares = float(bins.bit_length()) if tree else math.fsum(c * c for c in self._scaled)
        contribution = math.sqrt(squares * epochs) / noise
        if contribution * least > 1.0:
            raise ValueError(
                f"noise_multiplier must be at least {least * noise * contribution:.6g} for "
                f"this encoder and number of epochs, got {noise!r}"
            )

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on the deal, the contributions and the noise; a sentence each."""
        theorem = "correlated noise, tree"
        if self.coefficients is not None:
            bands = len(self.coefficients) > 1
            theorem = "correlated noise, bands" if bands else "allocation"
        return needed(
            theorem,
            "Every record is dealt to one bin uniformly at random and independently of the other "
            "records, takes part in that bin's step of every epoch and in no other, and the deal "
            "stays hidden",
            "What a record contributes to a step has 2-norm at most 1 where the white noise has "
            "the deviation stated, and nothing else of a step depends on the record, such as the "
            "size of its batch",
            "The encoder is the one stated, and its noise is drawn once, white, for the whole run",
        )

    @property
    def wide(self) -> str | None:
        """Why lower ends are not tight, for several bands; else None."""
        if self.coefficients is None or len(self.coefficients) == 1:
            return None
        exact = bands_are_a_pair(self.coefficients, self.bins, self.epochs)
        return None if exact else _WIDE

    @property
    def _scaled(self) -> tuple[float, ...]:
        """The encoder's column as it is used: no longer than the bins of a single epoch."""
        assert self.coefficients is not None
        norm = math.hypot(*self.coefficients) if self.normalised else 1.0
        return tuple(value / norm for value in self.coefficients[: self.bins])

    @reduced_once
    def reduced(self) -> Pair:
        """The dominating pair, of upper and of lower bounds."""
        if self.coefficients is None:
            return tree_of_noise(self.noise_multiplier, self.bins, self.epochs)
        if len(self.coefficients) == 1:
            contribution = 1.0 if self.normalised else abs(self.coefficients[0])
            step = GaussianMechanism(noise_multiplier=self.noise_multiplier / contribution)
            return allocation(lambda side: step.ratio(self.epochs, side), self.bins, self.bins)
        return banded(self._scaled, self.noise_multiplier, self.bins, self.epochs)


def _column(coefficients: Sequence[float]) -> tuple[float, ...]:
    """The column of an encoder, checked, without zeros at its end."""
    if not validate.several(coefficients):
        raise TypeError(
            "coefficients must be a sequence of numbers, got "
            f"{validate.shown(coefficients)} of type {type(coefficients).__name__}"
        )
    if not 1 <= len(coefficients) <= MOST_BANDS:
        raise ValueError(
            f"coefficients must be 1 to {MOST_BANDS} numbers, got {len(coefficients)} of them"
        )
    column = [validate.real(coefficients=value) for value in coefficients]
    while column and column[-1] == 0.0:
        column.pop()
    if not column or not 1e-100 <= max(abs(value) for value in column) <= 1e100:
        raise ValueError(
            "coefficients must not all be 0, and the largest at most 1e100, got "
            f"{validate.shown(coefficients)}"
        )
    return tuple(column)
