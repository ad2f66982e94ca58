"""Laplace and Gaussian noise: tails of the likelihood ratio in closed form, on a grid.

Gaps are in units of the noise: ``|a - b| / scale`` for Laplace, ``|a - b| / sigma`` for Gaussian.
For Laplace noise of parameter eps0 on an interval [a, b] instead of [0, 1], take
``eps0 (b - a)``.

More noise for the same gap, or a smaller gap, helps no adversary. Gaussian: shrinking both messages
and adding noise turns a gap into any smaller one. Laplace: with c the mass of the common part, D
the gap, ``F(D) = e^-D m(c) + int_-D^D e^s m(c e^(-(D+s)/2) / 2) ds`` has the derivative
``2 e^D m(c e^-D / 2) - F(D)``, which is not negative since m(x)/x falls. So the worst inputs are
the ends of the interval.
"""

from __future__ import annotations

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.reidentification.ratio_law import success_from_tails
from shuffle_accountant.leakage.reidentification.success import checked_counts
from shuffle_accountant.randomizers.gaussian import normal_blanket_tails, normal_tails
from shuffle_accountant.randomizers.laplace import laplace_tails

__all__ = ["gaussian_blanket", "gaussian_success", "laplace_blanket", "laplace_success"]


def laplace_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """Success probability for one message with Laplace noise among n - 1 around another mean.

    Args:
        gap: distance D of the means in units of the scale, finite, >= 0.
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of the success probability.
    """
    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(laplace_tails(gap, 0.0), users, guesses, "laplace pair")


def laplace_blanket(eps0: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Bound for Laplace noise on [0, 1]: the blanket is ``e^(-eps0/2)`` of the noise around 1/2.

    Args:
        eps0: local privacy parameter, nats, finite, > 0; the scale is its inverse.
        target: the target's input, in [0, 1].
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of psi, an upper bound of the success probability whatever the other inputs.
    """
    eps0 = validate.positive(eps0=eps0)
    gap = eps0 * abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(laplace_tails(gap, 0.5 * eps0), users, guesses, "blanket")


def gaussian_success(gap: float, *, users: int, guesses: int = 1) -> Bracket:
    """Success probability for one message with Gaussian noise among n - 1 around another mean.

    Args:
        gap: distance d of the means in standard deviations, finite, >= 0.
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of the success probability.
    """
    gap = validate.finite_nonnegative(gap=gap)
    users, guesses = checked_counts(users, guesses)
    tails = normal_tails(gap, guesses / users)
    return success_from_tails(tails, users, guesses, "gaussian pair")


def gaussian_blanket(sigma: float, target: float, *, users: int, guesses: int = 1) -> Bracket:
    """Bound for Gaussian noise on {0, 1}, or on [0, 1], whose blanket is the same.

    Args:
        sigma: standard deviation of the noise, finite, > 0.
        target: the target's input, in [0, 1].
        users: messages n, the target's included, in [1, 2^53].
        guesses: positions k the adversary may name, in [1, n].

    Returns:
        Bracket of psi, an upper bound of the success probability whatever the other inputs.
    """
    sigma = validate.positive(sigma=sigma)
    lean = abs(validate.closed_unit(target=target) - 0.5)
    users, guesses = checked_counts(users, guesses)
    return success_from_tails(normal_blanket_tails(sigma, lean), users, guesses, "blanket")
