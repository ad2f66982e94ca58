"""Information-theoretic channels from secrets to outputs, and an adversary's gain from an output.

Alvim et al., 'The Science of Quantitative Information Flow' (2020); section II-A of Jurado et al.
(CSF 2023). A channel C from secrets x to outputs y holds ``C[x, y] = P(y | x)``. An adversary with
a prior pi chooses among guesses w with gains g(w, x):

    V_g(pi)     = max_w sum_x pi_x g(w, x)                     before seeing an output,
    V_g[pi > C] = sum_y max_w sum_x pi_x C[x, y] g(w, x)       after.

Which of two channels leaks more: equivalence by posteriors, refinement by linear programming.

*Local randomization and shuffling of n users with k values*, Definitions 7, 8, 10 and 23. A dataset
is a tuple of the users' values, in lexicographic order; a histogram is the tuple of the values'
counts, the first count descending. Full channels return datasets, reduced ones histograms:

    N  = local_channel(R, n)              each user's value goes through R,
    S  = shuffle_channel(n, k)            a random order,
    Sr = reduced_shuffle_channel(n, k)    the histogram,
    Nr = reduced_local_channel(R, n)      histogram of the messages, from that of the values.

Shuffling commutes with randomizing, not only for k-ary randomized response: ``N @ S == S @ N`` and
``N @ Sr == Sr @ Nr`` as matrices for any local channel R, because S is the mean of all permutations
of the users, and each of them commutes with treating all users alike. (If R has as many messages as
inputs; otherwise the two S have the two numbers.)

All histograms of n messages, and the distribution of the histogram of independent ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.leakage.arguments import numbers, prior_over
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.randomizers.base import FiniteRandomizer
from shuffle_accountant.randomizers.channel import DiscreteRandomizer
from shuffle_accountant.randomizers.checks import row_sums

MOST_CELLS = 1 << 24
"""Most numbers in a table (128 MiB)."""

MOST_STEPS = 1 << 30
"""Most additions in a computation of histogram laws, which take a second or two."""


def require_room(names: str, what: str, cells: int) -> None:
    """Refuse a table of too many numbers, which ``names`` of arguments ask for."""
    if cells > MOST_CELLS:
        about = "over" if cells.bit_length() > 1 << 14 else "about"
        size = str(cells) if cells < 10**12 else f"{about} 10^{math.floor(math.log10(cells))}"
        raise ValueError(f"{names} must make {what} have at most {MOST_CELLS} entries, got {size}")


def require_steps(users: int, letters: int, laws: int) -> None:
    """Refuse distributions of histograms that would take too long."""
    # the tables of the first users are smaller than that of all; at least 2^11 steps
    table = max((users + 1) ** (letters - 1) // letters, 1 << 11)
    if letters > 1 and laws * users * table > MOST_STEPS:
        raise ValueError(
            f"users must make distributions of histograms take at most {MOST_STEPS} additions, "
            f"got {laws} laws of {users} messages with {letters} letters"
        )


def all_histograms(users: int, letters: int) -> NDArray[np.int64]:
    """All ways to write n >= 0 users as an ordered sum of k >= 1 counts, shape (ways, k).

    In descending order of the first count, then the second, ….
    """
    require_room(
        "users", "the table of histograms", math.comb(users + letters - 1, letters - 1) * letters
    )
    if users < letters:  # the messages that are sent, in the same order
        multisets = itertools.combinations_with_replacement(range(letters), users)
        held = np.fromiter(itertools.chain.from_iterable(multisets), dtype=np.int64)
        held = held.reshape(-1, users) if users else np.zeros((1, 0), dtype=np.int64)
        table = np.zeros((held.shape[0], letters), dtype=np.int64)
        np.add.at(table, (np.arange(held.shape[0])[:, None], held), 1)
        return table
    columns: list[NDArray[np.int64]] = []
    left = np.array([users], dtype=np.int64)
    for _ in range(letters - 1):
        # every row goes on in left + 1 ways: the next count is left, left - 1, …, 0
        ways = left + 1
        ends = np.cumsum(ways)
        rest = np.arange(ends[-1]) - np.repeat(ends - ways, ways)
        columns = [np.repeat(column, ways) for column in columns]
        columns.append(np.repeat(left, ways) - rest)
        left = rest
    return np.stack([*columns, left], axis=1)


def histogram_laws(channel: Array, counts: NDArray[np.int64]) -> Iterator[Array]:
    """Probabilities by the counts of all messages but the last, (distributions, n + 1, …, n + 1).

    ``counts`` are the users who hold each input of the channel, shape (distributions, inputs).
    Yielded are as many as a cache of the processor holds: 2^16 numbers, half a megabyte.
    """
    letters, users = channel.shape[1], int(counts[0].sum())
    cells = (users + 1) ** (letters - 1)
    require_room("users", "the table of histogram probabilities", cells)
    together = max((1 << 16) // cells, 1)
    for start in range(0, len(counts), together):
        some = counts[start : start + together]
        laws = np.ones((len(some),) + (1,) * (letters - 1))
        if letters > 1:
            values = np.array([np.repeat(np.arange(len(channel)), row) for row in some])
            # all terms are positive: a relative error of a few units per user
            for user in range(users):
                laws = one_more(laws, channel[values[:, user]])
        yield laws


def one_more(laws: Array, rows: Array) -> Array:
    """Distributions of histograms with one more message, whose probabilities are the rows."""
    more = np.zeros([len(laws), *(size + 1 for size in laws.shape[1:])])
    same = [slice(None), *[slice(None, -1)] * (laws.ndim - 1)]
    weights = rows.T.reshape((rows.shape[1], len(laws)) + (1,) * (laws.ndim - 1))
    np.multiply(weights[-1], laws, out=more[tuple(same)])
    for axis in range(1, laws.ndim):
        moved = [*same[:axis], slice(1, None), *same[axis + 1 :]]
        more[tuple(moved)] += weights[axis - 1] * laws
    return more


MOST_VARIABLES = 1 << 16
"""Most entries of a post-processing channel that is searched for."""

MOST_COEFFICIENTS = 1 << 23
"""Most entries of the constraints of a linear program."""


def _stochastic(**named: ArrayLike) -> Array:
    """The one named argument as a checked channel matrix, a copy."""
    ((name, values),) = named.items()
    matrix = numbers(**{name: values})
    if matrix.ndim != 2 or not matrix.size:
        raise ValueError(f"{name} must have shape (inputs, outputs), got {matrix.shape}")
    require_room(name, "it", matrix.size)
    row_sums(**{name: matrix})
    return matrix


def _expected_gains(joint: Array, gain: ArrayLike | None) -> Array:
    """Expected gain of each guess, given probabilities of the inputs along the first axis."""
    if gain is None:
        return joint
    inputs, array = joint.shape[0], numbers(gain=gain)
    if array.ndim != 2 or array.shape[1] != inputs or not array.shape[0]:
        raise ValueError(f"gain must have shape (guesses, {inputs}), got {array.shape}")
    bad = ~((array >= 0.0) & np.isfinite(array))
    if bad.any():
        raise ValueError(f"gain must be finite numbers >= 0, got {float(array[bad][0])!r}")
    return array @ joint


def _distinct_names(
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
    if not len(named) == distinct == count:
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

    The three are attributes as well, the matrix read-only.
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
        checked = _stochastic(matrix=matrix)
        checked.setflags(write=False)
        object.__setattr__(self, "matrix", checked)
        object.__setattr__(self, "inputs", _distinct_names("inputs", inputs, checked.shape[0]))
        object.__setattr__(self, "outputs", _distinct_names("outputs", outputs, checked.shape[1]))

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
        """The channel as what each user of a shuffled round applies, without outputs never seen."""
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
        row = _place(self.inputs, given=given)
        return float(self.matrix[row, _place(self.outputs, output=output)])

    def prior_vulnerability(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """``max_w sum_x pi_x g(w, x)``: expected gain of the best blind guess (Definition 1)."""
        return float(np.max(_expected_gains(prior_over(len(self.inputs), prior), gain)))

    def posterior_vulnerability(
        self, prior: ArrayLike | None = None, gain: ArrayLike | None = None
    ) -> float:
        """``sum_y max_w sum_x pi_x C[x, y] g(w, x)``: expected gain, given the output (Def. 2)."""
        joint = prior_over(len(self.inputs), prior)[:, None] * self.matrix
        return math.fsum(np.max(_expected_gains(joint, gain), axis=0))

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
        groups = _merged_columns(self.matrix, tolerance)
        columns = [self.matrix[:, group].sum(axis=1) for group in groups]
        names = [tuple(self.outputs[y] for y in group) for group in groups]
        return Channel(np.stack(columns, axis=1), inputs=self.inputs, outputs=names)

    def is_equivalent_to(self, other: Channel, *, tolerance: float = 1e-9) -> bool:
        """Whether no prior and no gain distinguish the channels: their canonical forms agree.

        Args:
            tolerance: see `canonical`; also for the weights of the merged columns.
        """
        tolerance = validate.finite_nonnegative(tolerance=tolerance)
        both = np.hstack([self.matrix, self._partner(other).matrix])
        # outer probability of an output under the uniform prior, the other's counted against
        weights = both.sum(axis=0) / both.shape[0]
        weights[self.matrix.shape[1] :] *= -1.0
        groups = _merged_columns(both, tolerance)
        return all(abs(float(weights[group].sum())) <= tolerance for group in groups)

    def is_refined_by(self, other: Channel, *, tolerance: float = 1e-8) -> bool:
        """Whether ``other`` leaks no more than this channel for any prior and gain (Theorem 4).

        That is, whether this channel in cascade with some channel is ``other``, by linear
        programming over all pairs of their outputs.

        Args:
            tolerance: largest difference of an entry of the cascade.
        """
        tolerance = validate.finite_nonnegative(tolerance=tolerance)
        fine, coarse = self.canonical(), self._partner(other).canonical()
        _, distance = _post_processing(fine.matrix, coarse.matrix)
        return distance <= tolerance

    def post_processing_to(self, other: Channel) -> tuple[Channel, float]:
        """The channel D for which this channel in cascade with D comes closest to ``other``.

        Returns:
            ``(D, distance)``: the largest difference of an entry, 0 to round-off if ``other``
            refines this channel.
        """
        matrix, distance = _post_processing(self.matrix, self._partner(other).matrix)
        return Channel(matrix, inputs=self.outputs, outputs=other.outputs), distance

    def _partner(self, other: Channel) -> Channel:
        other = validate.instance(Channel, other=other)
        if self.inputs != other.inputs:
            raise ValueError(
                f"other must have this channel's {len(self.inputs)} inputs, got "
                f"{len(other.inputs)}, or other names"
            )
        return other


def channel_matrix(channel: Channel | ArrayLike) -> Array:
    """The probabilities of a channel that is given as one, or as its matrix."""
    return channel.matrix if isinstance(channel, Channel) else _stochastic(channel=channel)


def _place(names: tuple[Hashable, ...], **named: Hashable) -> int:
    ((name, value),) = named.items()
    try:
        return names.index(value)
    except (ValueError, TypeError, ArithmeticError):  # or what does not even compare
        raise ValueError(f"{name} must be one of the channel's {len(names)} names") from None


def _merged_columns(matrix: Array, tolerance: float) -> list[list[int]]:
    """Groups of columns, ascending, without zero columns, whose shapes are those of their firsts.

    A shape is a column over its sum; no entry is further off than the tolerance.
    """
    sums = matrix.sum(axis=0)
    present = np.flatnonzero(sums > 0.0)
    shapes = matrix[:, present] / sums[present]
    # a group is close in every projection too; a fixed one narrows down where to look
    weights = np.cos(np.arange(matrix.shape[0], dtype=np.float64))
    projected = weights @ shapes
    order = np.argsort(projected, kind="stable")
    reach = tolerance * matrix.shape[0] + 1e-15
    free = np.ones(present.size, dtype=bool)
    groups = []
    for first in range(present.size):
        if not free[first]:
            continue
        low, high = np.searchsorted(
            projected, [projected[first] - reach, projected[first] + reach], sorter=order
        )
        near = np.append(order[low:high], first)
        near = np.unique(near[free[near]])
        distance = np.max(np.abs(shapes[:, near] - shapes[:, [first]]), axis=0)
        members = near[distance <= tolerance]
        free[members] = False
        groups.append(present[members].tolist())
    return groups


def _post_processing(fine: Array, coarse: Array) -> tuple[Array, float]:
    """The channel D that minimises the largest entry of ``|fine D - coarse|``, and that entry."""
    from scipy import optimize, sparse

    inner, outer, secrets = fine.shape[1], coarse.shape[1], fine.shape[0]
    if inner * outer > MOST_VARIABLES or 2 * secrets * inner * outer > MOST_COEFFICIENTS:
        raise ValueError(
            f"channels must have at most {MOST_VARIABLES} pairs of outputs and "
            f"{MOST_COEFFICIENTS // 2} triples with an input, got {inner} and {outer} outputs of "
            f"{secrets} inputs"
        )
    # unknowns: D row by row, then the slack s; fine D - coarse <= s and >= -s
    product = sparse.kron(sparse.csr_array(fine), sparse.eye_array(outer))
    slack = sparse.csr_array(np.ones((secrets * outer, 1)))
    target = coarse.ravel()
    rows = sparse.kron(sparse.eye_array(inner), sparse.csr_array(np.ones((1, outer))))
    answer = optimize.linprog(
        np.append(np.zeros(inner * outer), 1.0),
        A_ub=sparse.vstack([sparse.hstack([product, -slack]), sparse.hstack([-product, -slack])]),
        b_ub=np.concatenate([target, -target]),
        A_eq=sparse.hstack([rows, sparse.csr_array((inner, 1))]),
        b_eq=np.ones(inner),
        bounds=(0.0, None),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        raise RuntimeError(f"linear program not solved: {answer.message}")
    found = np.maximum(answer.x[:-1].reshape(inner, outer), 0.0)
    found /= found.sum(axis=1, keepdims=True)
    return found, float(np.max(np.abs(fine @ found - coarse)))


def datasets(users: int, categories: int) -> list[tuple[int, ...]]:
    """All datasets: tuples of n values in 0 … k - 1, in lexicographic order."""
    users, categories = _sizes(users, categories)
    # beyond 64 users two values are too many, without computing a huge power
    require_room(
        "users and categories", "the list of datasets", categories ** min(users, 64) * users
    )
    return list(itertools.product(range(categories), repeat=users))


def keep_probability(*, eps0: float, categories: int) -> float:
    """``p = e^eps0/(k - 1 + e^eps0)``: how often eps0-private randomized response is true.

    Args:
        eps0: local privacy in nats, in [0, inf].
    """
    eps0 = validate.nonnegative(eps0=eps0)
    categories = validate.integer(minimum=2, categories=categories)
    if categories <= 2**53:
        return 1.0 / (1.0 + (categories - 1) * math.exp(-eps0))
    log_odds = eps0 - math.log(categories - 1)  # an integer that may be no double
    return 1.0 / (1.0 + math.exp(-log_odds)) if log_odds > -700.0 else math.exp(log_odds)


def krr(*, categories: int, p: float) -> Channel:
    """k-ary randomized response for one user: p on the diagonal, (1 - p)/(k - 1) elsewhere."""
    categories = validate.integer(minimum=2, categories=categories)
    p = validate.closed_unit(p=p)
    require_room("categories", "the channel of one user", categories * categories)
    matrix = np.full((categories, categories), (1.0 - p) / (categories - 1))
    np.fill_diagonal(matrix, p)
    return Channel(matrix)


def local_channel(channel: Channel | ArrayLike, *, users: int) -> Channel:
    """N: every user's value goes through the channel independently (Definition 10).

    At most 2^24 entries: ``(values * messages)^n``.
    """
    one = channel_matrix(channel)
    users = validate.integer(minimum=1, users=users)
    require_room("users", "the channel on datasets", one.size ** min(users, 64))
    values, messages = (datasets(users, size) for size in one.shape)
    product = one
    for _ in range(users - 1):
        product = np.asarray(np.kron(product, one), dtype=np.float64)
    return Channel(product, inputs=values, outputs=messages)


def krr_channel(*, users: int, categories: int, p: float) -> Channel:
    """N for k-ary randomized response (Definition 10); k^(2n) must be at most 2^24."""
    return local_channel(krr(categories=categories, p=p), users=users)


def shuffle_channel(*, users: int, categories: int) -> Channel:
    """S: each dataset of the same histogram with the same probability (Definition 7).

    At most 2^24 entries: ``k^(2n)``.
    """
    users, categories = _sizes(users, categories)
    rows = datasets(users, categories)
    require_room("users and categories", "the channel on datasets", len(rows) ** 2)
    membership = _membership(users, categories, rows)
    # P(y | x) = P(y | h(x)): one over the number of datasets with that histogram
    matrix = membership @ (membership / membership.sum(axis=0)).T
    return Channel(matrix, inputs=rows, outputs=rows)


def reduced_shuffle_channel(*, users: int, categories: int) -> Channel:
    """Sr: the histogram of the dataset (Definition 8); k^n C(n + k - 1, k - 1) <= 2^24."""
    users, categories = _sizes(users, categories)
    rows = datasets(users, categories)
    matrix = _membership(users, categories, rows)
    return Channel(matrix, inputs=rows, outputs=_histograms(users, categories))


def reduced_local_channel(channel: Channel | ArrayLike, *, users: int) -> Channel:
    """Nr: from the histogram of the values to that of the messages (Definition 23).

    The definition is a mean over the datasets of one histogram; its terms are equal. The matrix
    must have at most 2^24 entries.
    """
    one = channel_matrix(channel)
    users = validate.integer(minimum=1, users=users)
    sizes = [_number_of_histograms(users, size) for size in one.shape]
    require_room("users", "the channel on histograms", sizes[0] * sizes[1])
    require_steps(users, one.shape[1], sizes[0])
    rows, columns = (_histograms(users, size) for size in one.shape)
    place = tuple(np.array(columns)[:, :-1].T)
    laws = histogram_laws(one, np.array(rows))
    matrix = np.concatenate([table[(slice(None), *place)] for table in laws])
    matrix = matrix.reshape(len(rows), len(columns))  # also of one message
    return Channel(matrix, inputs=rows, outputs=columns)


def reduced_krr_channel(*, users: int, categories: int, p: float) -> Channel:
    """Nr for k-ary randomized response (Definition 23); C(n + k - 1, k - 1)^2 <= 2^24."""
    return reduced_local_channel(krr(categories=categories, p=p), users=users)


def _sizes(users: int, categories: int) -> tuple[int, int]:
    users = validate.integer(minimum=1, users=users)
    return users, validate.integer(minimum=1, categories=categories)


def _number_of_histograms(users: int, letters: int) -> int:
    """Number of histograms; where it has too many digits, a smaller one that is still too large."""
    most_bits = 1 << 17  # of a number of histograms that is computed exactly
    smaller, larger = sorted((users, letters - 1))
    if smaller * larger.bit_length() <= most_bits:
        return math.comb(users + letters - 1, letters - 1)
    return int((larger // smaller) ** max(most_bits // larger.bit_length(), 1))


def _histograms(users: int, letters: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in all_histograms(users, letters).tolist()]


def _membership(users: int, categories: int, rows: list[tuple[int, ...]]) -> Array:
    """1 where the dataset has the histogram, shape (datasets, histograms)."""
    cells = math.comb(users + categories - 1, categories - 1)
    require_room("users and categories", "the table of datasets by histograms", len(rows) * cells)
    place = {histogram: i for i, histogram in enumerate(_histograms(users, categories))}
    held = [place[tuple(map(row.count, range(categories)))] for row in rows]
    return np.eye(cells)[held]


def single_target_gain(*, users: int, categories: int, target: int = 0) -> Array:
    """g_T: 1 for the target's value, whatever the others hold (Definition 13).

    Shape (k, k^n): guesses by datasets, at most 2^24 entries; ``target`` is in [0, n - 1].
    """
    users, categories = _sizes(users, categories)
    # beyond 64 users two values are too many, without computing a huge power
    require_room("users and categories", "the gain", categories ** (min(users, 64) + 1))
    target = validate.integer(minimum=0, maximum=users - 1, target=target)
    before, after = categories**target, categories ** (users - 1 - target)
    # datasets in lexicographic order: blocks of one value of the target, again and again
    return np.tile(np.repeat(np.eye(categories), after, axis=1), (1, before))


def identity_gain(secrets: int) -> Array:
    """1 for the right secret: the gain of Bayes vulnerability and min-entropy leakage."""
    secrets = validate.integer(minimum=1, secrets=secrets)
    require_room("secrets", "the gain", secrets * secrets)
    return np.eye(secrets)
