"""Information-theoretic channels from secrets to outputs, and an adversary's gain from an output.

Alvim et al., 'The Science of Quantitative Information Flow' (2020); section II-A of Jurado et al.
(CSF 2023). A channel C from secrets x to outputs y holds ``C[x, y] = P(y | x)``. An adversary with
a prior pi chooses among guesses w with gains g(w, x):

    V_g(pi)     = max_w sum_x pi_x g(w, x)                     before seeing an output,
    V_g[pi > C] = sum_y max_w sum_x pi_x C[x, y] g(w, x)       after.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import numbers, prior_over
from shuffle_accountant.leakage.qif.comparison import equivalent, merge_columns, post_processing
from shuffle_accountant.leakage.qif.histograms import require_room
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import FiniteRandomizer
from shuffle_accountant.randomizers.channel import DiscreteRandomizer
from shuffle_accountant.randomizers.checks import row_sums


def stochastic(**named: ArrayLike) -> Array:
    """The one named argument as a checked channel matrix, a copy."""
    ((name, values),) = named.items()
    matrix = numbers(**{name: values})
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{name} must have shape (inputs, outputs), got {matrix.shape}")
    require_room(name, "it", matrix.size)
    row_sums(**{name: matrix})
    return matrix


def gains_over(inputs: int, gain: ArrayLike) -> Array:
    """A checked matrix of gains, shape (guesses, inputs)."""
    array = numbers(gain=gain)
    if array.ndim != 2 or array.shape[1] != inputs or not array.shape[0]:
        raise ValueError(f"gain must have shape (guesses, {inputs}), got {array.shape}")
    bad = ~((array >= 0.0) & np.isfinite(array))
    if bad.any():
        raise ValueError(f"gain must be finite numbers >= 0, got {float(array[bad][0])!r}")
    return array


def distinct_names(
    which: str, names: Sequence[Hashable] | None, count: int
) -> tuple[Hashable, ...]:
    """The names of rows or columns; 0, 1, … for None."""
    if names is None:
        return tuple(range(count))
    try:
        named = tuple(names)
        distinct = len(set(named))
    except TypeError:
        raise TypeError(
            f"{which} must be {count} distinct names, which can be hashed, got an object of type "
            f"{type(names).__name__}"
        ) from None
    if len(named) != count or distinct != count:
        raise ValueError(f"{which} must be {count} distinct names, got {distinct}")
    return named


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Channel:
    """A channel matrix with names for its secrets and outputs.

    Args:
        matrix: row x holds the probabilities of the outputs for secret x, shape (inputs, outputs),
            rows that sum to 1 within 1e-9; at most 2^24 entries.
        inputs: names of the secrets, distinct; 0, 1, … if None.
        outputs: names of the outputs, distinct; 0, 1, … if None.

    Attributes:
        matrix: the probabilities, read-only.
        inputs: names of the rows.
        outputs: names of the columns.
    """

    matrix: Array
    inputs: tuple[Hashable, ...]
    outputs: tuple[Hashable, ...]

    def __init__(
        self,
        matrix: ArrayLike,
        *,
        inputs: Sequence[Hashable] | None = None,
        outputs: Sequence[Hashable] | None = None,
    ) -> None:
        checked = stochastic(matrix=matrix)
        checked.setflags(write=False)
        object.__setattr__(self, "matrix", checked)
        object.__setattr__(self, "inputs", distinct_names("inputs", inputs, checked.shape[0]))
        object.__setattr__(self, "outputs", distinct_names("outputs", outputs, checked.shape[1]))

    @classmethod
    def from_randomizer(cls, randomizer: FiniteRandomizer) -> Channel:
        """The channel from a user's value to one message of a local randomizer.

        Args:
            randomizer: any with finitely many inputs and messages. The channel of a
                `DiscreteRandomizer` is its own; of others, messages that no prior and no gain
                distinguish are one output.
        """
        randomizer = validate.instance(FiniteRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
        inputs = randomizer.inputs
        # as many classes as there are patterns of bits, or at the least one
        cells = inputs << min(inputs, 64) if randomizer.classes_double else inputs
        require_room(
            "randomizer", "its channel", cells if randomizer.mixture is None else inputs**2
        )
        return cls(randomizer.matrix())

    def to_randomizer(self) -> DiscreteRandomizer:
        """The channel as what each user of a shuffled round applies; names are left out.

        Outputs that are never seen are left out.
        """
        return DiscreteRandomizer(self.matrix[:, self.matrix.any(axis=0)])

    def __repr__(self) -> str:
        return f"Channel({len(self.inputs)} inputs, {len(self.outputs)} outputs)"

    def __matmul__(self, other: Channel) -> Channel:
        """The cascade: ``other`` takes the outputs of this channel (Definition 3)."""
        if not isinstance(other, Channel):
            return NotImplemented
        if self.outputs != other.inputs:
            raise ValueError(
                f"a cascade needs a channel whose inputs are these {len(self.outputs)} outputs, "
                f"got one with {len(other.inputs)} inputs of other names"
                if len(self.outputs) == len(other.inputs)
                else f"a cascade needs a channel with {len(self.outputs)} inputs, "
                f"got one with {len(other.inputs)}"
            )
        return Channel(self.matrix @ other.matrix, inputs=self.inputs, outputs=other.outputs)

    def probability(self, output: Hashable, *, given: Hashable) -> float:
        """P(output | given), by names."""
        row, column = _place(self.inputs, given=given), _place(self.outputs, output=output)
        return float(self.matrix[row, column])

    def prior_vulnerability(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """``max_w sum_x pi_x g(w, x)``: expected gain of the best blind guess (Definition 1)."""
        pi = prior_over(len(self.inputs), prior)
        return float(np.max(pi if gain is None else gains_over(len(self.inputs), gain) @ pi))

    def posterior_vulnerability(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """``sum_y max_w sum_x pi_x C[x, y] g(w, x)``: expected gain, given the output (Def. 2).

        Never below the prior vulnerability.
        """
        joint = prior_over(len(self.inputs), prior)[:, None] * self.matrix
        gained = joint if gain is None else gains_over(len(self.inputs), gain) @ joint
        return math.fsum(np.max(gained, axis=0))

    def additive_leakage(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """Posterior less prior vulnerability, >= 0."""
        before = self.prior_vulnerability(prior, gain)
        return max(self.posterior_vulnerability(prior, gain) - before, 0.0)

    def multiplicative_leakage(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """Posterior over prior vulnerability, >= 1.

        Args:
            gain: see `posterior_vulnerability`; not all 0 where the prior is not.
        """
        before = self.prior_vulnerability(prior, gain)
        if before == 0.0:
            raise ValueError("gain must be positive for a guess at a possible secret, got only 0")
        return max(self.posterior_vulnerability(prior, gain) / before, 1.0)

    def min_entropy_leakage(self, prior: ArrayLike | None = None) -> float:
        """Bits of min-entropy that the output takes away: log2 of the multiplicative leakage."""
        return math.log2(self.multiplicative_leakage(prior))

    def min_capacity(self) -> float:
        """``log2 sum_y max_x C[x, y]``, bits: the largest min-entropy leakage of any prior.

        Attained by the uniform prior; bounds log2 of the multiplicative leakage of every gain.
        """
        return max(math.log2(math.fsum(self.matrix.max(axis=0))), 0.0)

    def canonical(self, *, tolerance: float = 1e-9) -> Channel:
        """The equivalent channel without zero columns, and with proportional columns merged.

        A merged output is named by the tuple of the outputs that it stands for.

        Args:
            tolerance: largest difference of columns, each over its sum, that count as proportional.
        """
        tolerance = validate.finite_nonnegative(tolerance=tolerance)
        groups = merge_columns(self.matrix, tolerance)
        columns = [self.matrix[:, group].sum(axis=1) for group in groups]
        names = [tuple(self.outputs[y] for y in group) for group in groups]
        return Channel(np.stack(columns, axis=1), inputs=self.inputs, outputs=names)

    def is_equivalent_to(self, other: Channel, *, tolerance: float = 1e-9) -> bool:
        """Whether no prior and no gain distinguish the channels: their canonical forms agree.

        Args:
            tolerance: see `canonical`; also for the weights of the merged columns.
        """
        tolerance = validate.finite_nonnegative(tolerance=tolerance)
        return equivalent(self.matrix, self._partner(other).matrix, tolerance)

    def is_refined_by(self, other: Channel, *, tolerance: float = 1e-8) -> bool:
        """Whether ``other`` leaks no more than this channel for any prior and gain (Theorem 4).

        That is, whether this channel in cascade with some channel is ``other``: linear programming
        over (outputs of this one) x (outputs of the other) variables, after merging columns.

        Args:
            tolerance: largest difference of an entry of the cascade.
        """
        tolerance = validate.finite_nonnegative(tolerance=tolerance)
        fine, coarse = self.canonical(), self._partner(other).canonical()
        _, distance = post_processing(fine.matrix, coarse.matrix)
        return distance <= tolerance

    def post_processing_to(self, other: Channel) -> tuple[Channel, float]:
        """The channel D for which this channel in cascade with D comes closest to ``other``.

        Returns:
            ``(D, distance)``: the largest difference of an entry, 0 to round-off if ``other``
            refines this channel.
        """
        matrix, distance = post_processing(self.matrix, self._partner(other).matrix)
        return Channel(matrix, inputs=self.outputs, outputs=other.outputs), distance

    def _partner(self, other: Channel) -> Channel:
        other = validate.instance(Channel, other=other)
        if self.inputs != other.inputs:
            raise ValueError(
                f"other must have this channel's {len(self.inputs)} inputs, got "
                f"{len(other.inputs)}, or other names"
            )
        return other


def as_channel(**named: Channel | ArrayLike) -> Channel:
    """The one named argument as a channel."""
    ((name, value),) = named.items()
    return value if isinstance(value, Channel) else Channel(stochastic(**{name: value}))


def _place(names: tuple[Hashable, ...], **named: Hashable) -> int:
    ((name, value),) = named.items()
    try:
        return names.index(value)
    except (ValueError, TypeError, ArithmeticError):  # or what does not even compare
        raise ValueError(f"{name} must be one of the channel's {len(names)} names") from None
