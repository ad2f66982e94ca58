"""Success probability of the best adversary at naming the target's message: two finite laws.

And the advantage over blind guesses, with bounds of it by total variation.

The shuffled word has the density ``(1/n) sum_i w(z_i)`` relative to n draws from the decoys'
distribution Q, w = P/Q, and given the word position i is the target's with probability ``w(z_i) /
sum_j w(z_j)``. So whoever names k positions is right with probability at most

    beta = f + (1/n) E[sum of the k largest of w(Y_1), …, w(Y_n)],    f = P(Q = 0),
         = f + (1/n) int_0^inf m_k(n, Q(w > t)) dt,                   m_k: see `expected_hits`,

by slicing each w into layers: ``w = int_0^inf 1{w > t} dt``. Over a finite message space the
integrand is a step function, and the integral a sum of terms that are all positive. Ties need no
rule, for the sum is continuous in w; a difference of powers of distribution functions is never
taken.

Q may have a mass below one: what is left is a message "blank" that the target never sends.

*Continuous laws*, between two certified ends. All that counts of two distributions is how the ratio
w = P/Q is distributed: ``Q(w > t)`` and ``P(w > t)``, the complements of the distribution functions
G and F of 'Bayesian Advantage of Re-Identification Attack in the Shuffle Model', equation 6. On a
grid of ratios t_0 = 0 < t_1 < … the mean of ``Q(w > t)`` over a cell is known exactly,

    A = (H(a) - H(b)) / (b - a),    H(t) = E_Q (w - t)_+ = P(w > t) - t Q(w > t),

and the hits m_k (see `hits`) are concave. So over a cell their integral is at most that of m_k(A)
(Jensen), and at least that of the chord between the cell's ends, at A. Beyond the last ratio T it
is at most n H(T), and at least (1 - n Q(w > T)/2) of that. Both ends are second order in the width
of the cells, atoms and kinks included, and hold on any grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket, ErrorLedger, in_order
from shuffle_accountant.leakage.arguments import MOST_USERS, law, numbers, two_laws
from shuffle_accountant.numerics.rounding import (
    BELOW_ONE,
    Array,
    lowered,
    pairwise_sum,
    product,
    raised,
    roundings,
)
from shuffle_accountant.randomizers.continuous import RatioTails
from shuffle_accountant.randomizers.noise import laplace_tails, normal_blanket_tails, normal_tails
from shuffle_accountant.reductions.base import TargetAmongDecoys

# Most guesses for which counts are summed one by one: SciPy's incomplete beta functions have errors
# of up to 4e-10 for this few guesses among 1e7 messages.
_MOST_LISTED = 64


def expected_hits(users: int, above: Array, guesses: int) -> Array:
    """``E min(k, Bin(n, q))``, 1 <= k <= n, of probabilities q of any shape, up to `hits_error`."""
    if guesses >= users:
        return np.asarray(users * above)
    if guesses <= _MOST_LISTED:
        return _listed(users, above, guesses)
    from scipy.special import betainc, betaincc

    # By Chernoff's bound fewer than k of n q are too unlikely to count where it is
    # false: exp(-42) = 6e-19.
    mean = users * above
    undecided = (mean < guesses) | ((mean - guesses) ** 2 < 84.0 * mean)
    hits = np.full(mean.shape, float(guesses))
    # n q P(Bin(n - 1, q) <= k - 2) + k P(Bin(n, q) >= k)
    rest, some = float(users - guesses + 1), above[undecided]
    few = mean[undecided] * betaincc(guesses - 1.0, rest, some)
    hits[undecided] = few + guesses * betainc(float(guesses), rest, some)
    return hits


def hits_error(guesses: int) -> float:
    """Bound on the relative error of `expected_hits` for an exactly known q."""
    # Listed: some units for ``k (1 - (1 - q)^n)`` and for the binomial masses taken off; what is
    # left is never below 1/k of the former, for ``m_k >= m_1``. For more the largest error seen
    # against 60-digit arithmetic is 4e-15, at 7800 random points, k up to 2000 and n up to 1e15.
    return roundings(32 * guesses) if guesses <= _MOST_LISTED else 1e-12


def _listed(users: int, above: Array, guesses: int) -> Array:
    """``k P(N >= 1) - sum over 0 < j < k of (k - j) P(N = j)``, N ~ Bin(n, q)."""
    # the largest double below one stands for one: with n > k nothing changes by more than it
    chance = np.minimum(above, BELOW_ONE)
    log_none = users * np.log1p(-chance)
    total = -guesses * np.expm1(log_none)
    odds = chance / (1.0 - chance)
    mass = np.exp(log_none)  # of j = 0; where it underflows, all below k <= 64 are negligible
    for j in range(1, guesses):
        mass = mass * odds * ((users - j + 1) / j)
        total = total - (guesses - j) * mass
    return np.asarray(np.maximum(total, 0.0))


# Relative error of sums of positive terms, each good to a few roundings.
_ERROR = pairwise_sum(own=8)

# Decoys' probability up to which it counts as zero: it takes 2^53 users to raise the success by one
# part in 1e290, and the ratio stays a double.
NEGLIGIBLE = 1e-306


@dataclass(frozen=True, eq=False)
class Layers:
    """Layers of the likelihood ratio w of the target's distribution over the decoys'.

    Attributes:
        certain: probability of a message that no decoy sends: it is recognised for sure.
        heights: widths of the steps of the ratio, from the largest ratio down, shape (messages,).
        above: decoys' mass of the ratios that reach the top of each step, shape (messages,).
    """

    certain: float
    heights: Array
    above: Array

    def success(self, users: int, guesses: int) -> float:
        """Chance that the best adversary's k positions hold it, relative error at most `error`."""
        if guesses == users:
            return 1.0
        hits = expected_hits(users, self.above, guesses)
        return min(self.certain + float(np.sum(self.heights * (hits / users))), 1.0)

    @staticmethod
    def error(guesses: int) -> float:
        """Bound on the relative error of `success` for distributions that are doubles."""
        # the hits' relative change is at most that of the mass above
        return product(_ERROR, hits_error(guesses))


def layers(p: Array, q: Array) -> Layers:
    """Slice the likelihood ratio of two mass functions; that of the decoys sums to one at most."""
    common = q > NEGLIGIBLE
    ratio = p[common] / q[common]
    order = np.argsort(-ratio)
    above = np.minimum(running_sum(q[common][order]), 1.0)
    return Layers(math.fsum(p[~common].tolist()), -np.diff(ratio[order], append=0.0), above)


def running_sum(values: Array) -> Array:
    """Sums of the first 1, 2, … of nonnegative values, each to a unit in its last place."""
    sums = np.cumsum(values)
    # the rounding errors of NumPy's own additions (Knuth's two-sum) are added back
    before = np.concatenate([[0.0], sums[:-1]])
    added = sums - before
    lost = (before - (sums - added)) + (values - added)
    return np.asarray(sums + np.cumsum(lost))


def success_probability(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """Probability that the best adversary names the position of the target's message.

    One message is a draw from p and the other n - 1 are independent draws from q; all n are
    shuffled. The adversary knows both distributions, sees the shuffled word and names k positions.
    This is ``beta_n^k(p, q)`` of 'Bayesian Advantage of Re-Identification Attack in the Shuffle
    Model' (Theorems 2 and 4, here for any number of guesses and with ties), exact to round-off: the
    relative error is at most 64 + 32 k units of 2^-53 up to 64 guesses, and below 1e-11 for more.

    Returns:
        A probability in [k/n, 1], up to round-off.
    """
    target, decoys = two_laws(p, q)
    users, guesses = checked_counts(users, guesses)
    return layers(target, decoys).success(users, guesses)


def success_among_decoys(decoys: TargetAmongDecoys, *, guesses: int = 1) -> float:
    """Success probability of the best adversary for a reduction's target, in its worse dataset.

    Args:
        decoys: `ShuffleRound.target_among_decoys` of a finite randomizer. Of a "blanket" the answer
            is an upper bound for the two inputs it was made of.
    """
    validate.instance(TargetAmongDecoys, decoys=decoys)
    users, guesses = checked_counts(decoys.n, guesses)
    q = np.array(decoys.q)
    return max(layers(np.array(p), q).success(users, guesses) for p in (decoys.p0, decoys.p1))


def checked_counts(users: int, guesses: int) -> tuple[int, int]:
    """Numbers of messages and of guesses, if they are in their ranges."""
    users = validate.integer(minimum=1, maximum=MOST_USERS, users=users)
    return users, validate.integer(minimum=1, maximum=users, guesses=guesses)


def psi(p: ArrayLike, common: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """Upper bound of the success probability among users who share a common part, to round-off.

    Args:
        common: masses mu that no other user's distribution is below, same shape, of sum at most 1.
    """
    target = law(p=p)
    users, guesses = checked_counts(users, guesses)
    masses = numbers(common=common)
    if masses.shape != target.shape:
        raise ValueError(f"common must have the shape of p, {target.shape}, got {masses.shape}")
    inside = (masses >= 0.0) & (masses <= 1.0)
    if not inside.all():
        raise ValueError(f"common must be numbers in [0, 1], got {float(masses[~inside][0])!r}")
    total = math.fsum(masses.tolist())
    if total > 1.0 + 1e-9:
        raise ValueError(f"common must sum to at most 1, got sum {total!r}")
    return layers(target, masses).success(users, guesses)


def clones_psi(gamma: float, *, users: int, guesses: int = 1) -> float:
    """Psi of a common part ``gamma P``: ``(1 - (1 - gamma)^n) / (n gamma)`` for one guess.

    Theorem 8 is the bound ``1 / (n gamma)`` of it, with ``gamma = e^-eps0``.

    Args:
        gamma: share of each other user's distribution that is the target's, in [0, 1].
    """
    gamma = validate.closed_unit(gamma=gamma)
    users, guesses = checked_counts(users, guesses)
    if gamma == 0.0 or guesses == users:
        return 1.0
    hits = float(expected_hits(users, np.array([gamma]), guesses)[0])
    return min(hits / (users * gamma), 1.0)


def additive_advantage(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """``Adv+ = beta_n^k(p, q) - k/n``, with relative accuracy for one guess.

    The difference is not taken: ``n Adv+ = (n - k) f + int_0^inf (m_k(n, Q) - k Q)(w > t) dt``, and
    for one guess the integrand is ``Q(w <= t) (1 - Q(w <= t)^(n-1))``. So distributions that agree
    to ten digits still have an advantage with six.

    Returns:
        A number in [0, 1 - k/n]; for k > 1 guesses its error is up to some units in the last place
        of k/n.
    """
    target, decoys = two_laws(p, q)
    users, guesses = checked_counts(users, guesses)
    certain, above_one, mass = _ratios_less_one(target, decoys)
    order = np.argsort(above_one)
    steps = np.diff(above_one[order])  # below the least ratio nothing is gained
    mass = mass[order]
    below = np.minimum(running_sum(mass)[:-1], 1.0)
    above = np.minimum(running_sum(mass[::-1])[::-1][1:], 1.0)
    if guesses == 1:
        gain = -below * np.expm1((users - 1) * np.log1p(-np.minimum(above, BELOW_ONE)))
    else:
        gain = np.maximum(expected_hits(users, above, guesses) - guesses * above, 0.0)
    return (1.0 - guesses / users) * certain + float(np.sum(steps * gain)) / users


def multiplicative_advantage(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """``Advx = (n/k) beta_n^k(p, q)``, in [1, n/k]: how many times better than blind guesses."""
    return success_probability(p, q, users=users, guesses=guesses) * (users / guesses)


def total_variation(p: ArrayLike, q: ArrayLike) -> float:
    """Total variation distance ``(1/2) sum |p - q|``, in [0, 1]."""
    one, other = two_laws(p, q)
    return min(0.5 * math.fsum(np.abs(one - other).tolist()), 1.0)


def advantage_bounds(p: ArrayLike, q: ArrayLike, *, users: int) -> Bracket:
    """Bracket of the additive advantage of one guess, by total variation and two more numbers.

    With D the total variation, f = P(Q = 0) and M the largest finite ratio, for n >= 2

        max(D, (n - 1) f) / n <= Adv+ <= f + (M - 1)/n (1 - (1 - (D - f)/(M - 1))^n) <= D.

    Below: the largest ratio has a mean of at least that of max(w_1, 1), by Jensen's inequality.
    Above: the step before the last one in the proof of Theorem 5, which keeps M. For n = 1 both
    ends are 0. The width is that of the theorem, not of arithmetic.
    """
    target, decoys = two_laws(p, q)
    users, _ = checked_counts(users, 1)
    certain, above_one, mass = _ratios_less_one(target, decoys)
    gained = math.fsum((above_one * mass)[above_one > 0.0].tolist())  # D - f
    distance = certain + gained
    largest = float(np.max(above_one, initial=0.0))  # M - 1
    if users == 1 or distance == 0.0:
        return Bracket(lower=0.0, upper=0.0, reduction="total variation")
    upper = certain
    if largest > 0.0:
        share = min(gained / largest, 1.0)
        upper += largest / users * float(expected_hits(users, np.array([share]), 1)[0])
    lower = max(distance / users, (1.0 - 1.0 / users) * certain) * (1.0 - _ERROR)
    lower, upper = in_order(lower, min(min(upper, distance) * (1.0 + _ERROR), 1.0))
    ledger = ErrorLedger(round_off=min(2.0 * _ERROR * upper, upper - lower))
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction="total variation")


def asymptote(p: ArrayLike, q: ArrayLike, *, users: int, guesses: int = 1) -> float:
    """``f + min(k M / n, 1 - f)``: upper bound and limit of the success probability.

    M is the largest finite ratio and f = P(Q = 0). The difference to the success probability is
    o(1/n) (Theorem 3), and for distributions over finitely many messages exponentially small: at
    most ``(M/n) (1 - Q(w = M))^n`` for one guess.
    """
    target, decoys = two_laws(p, q)
    users, guesses = checked_counts(users, guesses)
    sliced = layers(target, decoys)
    rest = min(guesses / users * float(np.sum(sliced.heights)), 1.0 - sliced.certain)
    return min(sliced.certain + rest, 1.0)


def _ratios_less_one(p: Array, q: Array) -> tuple[float, Array, Array]:
    """P(Q = 0), and of the other messages ``w - 1``, without cancellation, and the decoys' mass."""
    common = q > NEGLIGIBLE
    certain = math.fsum(p[~common].tolist())
    return certain, (p[common] - q[common]) / q[common], q[common]


Tail = Callable[[Array], ArrayLike]

# Least likelihood ratio: a narrower cell has no slope that is a double.
_LEAST_RATIO = 1e-280


def success_from_tails(tails: RatioTails, users: int, guesses: int, name: str) -> Bracket:
    """Bracket, of that name, of the success probability of k guesses among n messages."""
    if guesses == users:
        return Bracket(lower=1.0, upper=1.0, reduction=name)
    width = np.diff(tails.ratios)
    gain = np.maximum(tails.target - tails.ratios * tails.decoys, 0.0)
    slack = product(tails.error, roundings(4))
    blur = slack * (tails.target + tails.ratios * tails.decoys)
    mean = (gain[:-1] - gain[1:]) / width
    doubt = (blur[:-1] + blur[1:]) / width
    most = np.minimum(raised(tails.decoys, slack), 1.0)[:-1]
    least = lowered(tails.decoys, slack)[1:]
    high = np.clip(mean + doubt, least, most)
    low = np.clip(mean - doubt, least, most)
    run = most - least
    share = np.where(run > 0.0, (low - least) / np.where(run > 0.0, run, 1.0), 1.0)

    def hits(above: Array) -> Array:
        return expected_hits(users, above, guesses) / users

    chord = share * hits(most) + (1.0 - share) * hits(least)
    rest = min(1.0, 0.5 * users * float(tails.decoys[-1]))
    over = gain[-1] + blur[-1]
    under = max(float(gain[-1] - blur[-1]), 0.0) * (1.0 - rest)
    # sums and products of positive terms, and the ratios' own rounding
    own = product(pairwise_sum(own=8), hits_error(guesses))
    upper = min(raised(float(np.sum(width * hits(high)) + over), own), 1.0)
    lower = max(lowered(float(np.sum(width * chord) + under), own), lowered(guesses / users, own))
    lower, upper = in_order(lower, upper)
    ledger = ErrorLedger(
        discretisation=max(upper - lower - 2.0 * own * upper, 0.0),
        round_off=min(2.0 * own * upper, upper - lower),
    )
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=name)


def success_from_ratio_law(
    target_above: Tail,
    decoys_above: Tail,
    *,
    ratios: ArrayLike,
    users: int,
    guesses: int = 1,
    error: float = 1e-15,
) -> Bracket:
    """Success probability for any two distributions whose likelihood ratio w has known tails.

    Discrete, continuous or mixed; see the module for the method. The bracket holds on any grid;
    its width falls with the square of the largest step of the ratios' logarithm.

    Args:
        target_above: ``P(w > t)`` of an array of ratios t, w = inf included.
        decoys_above: ``Q(w > t)``; at most ``1/t``.
        ratios: the grid: at least 1e-280, finite, strictly rising; 0 is put before it. It
            should reach to the largest ratio, or to where ``P(w > t)`` does not count.
        error: relative error of the two functions' values, in [0, 1].
    """
    users, guesses = checked_counts(users, guesses)
    error = validate.closed_unit(error=error)
    target_above = validate.function(target_above=target_above)
    decoys_above = validate.function(decoys_above=decoys_above)
    inner = numbers(ratios=ratios)
    if inner.ndim != 1 or not inner.size:
        raise ValueError(f"ratios must have one dimension and an entry, got shape {inner.shape}")
    grid = np.concatenate([[0.0], inner])
    if not (np.all(np.isfinite(inner)) and np.all(grid[1:] > grid[:-1])):
        raise ValueError("ratios must be positive, finite and strictly rising, got other numbers")
    if inner[0] < _LEAST_RATIO:
        raise ValueError(f"ratios must be at least {_LEAST_RATIO:g}, got {float(inner[0])!r}")
    tails = RatioTails(
        grid,
        _values("target_above", target_above, grid),
        _values("decoys_above", decoys_above, grid),
        np.asarray(error),
    )
    if not abs(tails.target[0] - 1.0) <= 1e-9:
        raise ValueError(f"target_above must be 1 at ratio 0, got {float(tails.target[0])!r}")
    # E_Q (w - t)_+ is not negative
    excess = tails.ratios * tails.decoys - tails.target * (1.0 + 2.0 * error + 1e-12)
    if np.any(excess > 0.0):
        at = float(grid[int(np.argmax(excess))])
        raise ValueError(f"decoys_above must be at most target_above/ratio, got more at {at!r}")
    return success_from_tails(tails, users, guesses, "ratio law")


def _values(name: str, tail: Tail, grid: Array) -> Array:
    """The tail at the grid, checked."""
    try:
        found = tail(grid)
    except (TypeError, ValueError) as failure:
        raise type(failure)(f"{name} must take an array of ratios: {failure}") from failure
    values = numbers(**{name: found})
    if values.shape != grid.shape:
        raise ValueError(f"{name} must return an array of its argument's shape, got {values.shape}")
    if not np.all((values >= 0.0) & (values <= 1.0 + 1e-9)):
        raise ValueError(f"{name} must have values in [0, 1], got other numbers")
    if np.any(np.diff(values) > 0.0):
        raise ValueError(f"{name} must not rise with the ratio")
    return np.minimum(values, 1.0)


def laplace_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """Success probability for one message with Laplace noise among n - 1 around another mean.

    Args:
        gap: distance D of the means in units of the scale, finite, >= 0.
    """
    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(laplace_tails(gap, 0.0), users, guesses, "laplace pair")


def laplace_blanket(eps0: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Psi, a bound whatever the other inputs, for Laplace noise on [0, 1].

    The blanket is ``e^(-eps0/2)`` of the noise around 1/2.
    """
    eps0 = validate.positive(eps0=eps0)
    gap = eps0 * abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(laplace_tails(gap, 0.5 * eps0), users, guesses, "blanket")


def gaussian_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """Success probability for one message with Gaussian noise among n - 1 around another mean.

    Args:
        gap: distance d of the means in standard deviations, finite, >= 0.
    """
    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(normal_tails(gap, guesses / users), users, guesses, "gaussian pair")


def gaussian_blanket(sigma: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Psi, a bound whatever the other inputs, for Gaussian noise on {0, 1} or on [0, 1].

    Args:
        sigma: standard deviation of the noise, finite, > 0.
    """
    sigma = validate.positive(sigma=sigma)
    lean = abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(normal_blanket_tails(sigma, lean), users, guesses, "blanket")
