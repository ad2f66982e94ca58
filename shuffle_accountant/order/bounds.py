"""Bounds by d-sigma-privacy at alpha on an adversary who knows a group.

All theorems are of Meehan et al., 'Privacy Implications of Shuffling'. The mechanism randomizes
every value with eps local privacy and shuffles so that any two orders of the values inside a group
differ by a factor e^alpha at most in the distribution of the output.

Theorem 4.1 is `posterior_odds_bound`, Theorem 4.2 `reidentification_bound`. Besides:

* Theorem 4.4: the same shuffle, with dispersion theta, protects any other groups G' at
  ``theta Delta(G')``, Delta being the sensitivity (`DSigmaShuffler.alpha_for`). The same measure of
  sensitivity, or an upper bound of it, must stand for both.
* Whatever is computed from the output, without another look at the data, keeps alpha; outputs of
  several independent shuffles of the same data add their alphas (`compose`), and their eps too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.rounding import Array
from shuffle_accountant.order.arguments import renamed

COUNTS = ("paper", "full swaps", "one layer", "layers")
"""Ways to count the permutations that lose."""

METHODS = ("best", "refined", *COUNTS)
"""Methods of `reidentification_bound`: one count, the best of all, or of all but the paper's."""

# Relative error of the logarithm of a factorial: eight units in the last place.
_ROUND_OFF = 8.0 * 2.0**-53


@dataclass(frozen=True, slots=True, kw_only=True)
class ReidentificationBound:
    """A bound on who can point out the values of k users in a group.

    Attributes:
        odds: lower bound on the chance to lose over the chance to win.
        win_cap: upper bound on the chance to win, ``1/(1 + odds)``.
        method: which count gave it: "paper", "full swaps", "one layer" or "layers".
    """

    odds: float
    win_cap: float
    method: str


def posterior_odds_bound(alpha: float) -> float:
    """Largest factor by which the output changes the odds between two inputs of a user.

    Theorem 4.1 of Meehan et al.: for every prior, against an adversary who knows all values outside
    of the user's group, and those inside without their order.

    Returns:
        e^alpha of the d-sigma-privacy alpha, nats, in [0, inf]; rounded up, inf where that is above
        the largest float.
    """
    alpha = validate.nonnegative(alpha=alpha)
    if alpha == 0.0:
        return 1.0
    # beyond the largest float e^alpha is inf, an upper bound still
    return math.nextafter(math.exp(alpha), math.inf) if alpha < 709.0 else math.inf


def compose(alphas: Iterable[float]) -> float:
    """Alpha of several releases of the same data with independent randomness: the sum.

    For one collection of groups (Meehan et al., Theorem A.2). Attained, so not to be improved. Each
    is in nats, in [0, inf], as is their sum.
    """
    spent = [validate.nonnegative(alpha=alpha) for alpha in validate.items(alphas=alphas)]
    try:
        return math.inf if math.inf in spent else math.fsum(spent)
    except OverflowError:  # the sum is above the largest float
        return math.inf


@renamed(eps="eps0")
def reidentification_bound(
    r: int, k: int, eps0: float, alpha: float, method: str = "best"
) -> ReidentificationBound:
    """Odds against pointing out the reports of k users of a group of r among all that is released.

    An adversary who points out k slots wins if more than k/2 of them are right. Theorem 4.2 of
    Meehan et al. and three refinements of its count of permutations that lose. Let N be how many of
    the adversary's k slots hold values of the k users, and p_w the chance of N = w given the
    output. Exchanging t of those values against t values of other members of the group costs a
    factor ``e^(alpha + 2 t eps0)``.

    * "paper": all k are exchanged against one of ``floor((r - k)/k)`` disjoint other sets.
    * "full swaps": against any of ``C(r - k, k)`` sets; one that loses is reached from at most
      ``M = max_h sum_{t > k/2} C(h, t) C(r - k - h, k - t)`` that win.
    * "one layer", "layers": t are exchanged, so N falls from w > k/2 to v = w - t <= k/2, and

          p_w <= c_wv p_v,   c_wv = e^(alpha + 2 t eps0) C(k - v, t)^2 / (C(w, t) C(r - 2k + w, t)).

      Any weights y >= 0 with ``sum_w y_wv <= 1`` for all v prove odds of ``min_w sum_v y_wv/c_wv``.
      All weight on ``v = floor(k/2)`` has a closed form; a linear program looks for better ones,
      and what it finds is checked and made valid, not believed.

    Args:
        eps0: local privacy of the reports, nats, >= 0, inf allowed.
        alpha: d-sigma-privacy of the shuffle for this group, nats, >= 0, inf allowed.
        method: "paper", "refined" (the best of the three refinements), "best" (of all), or one of
            the three by its name above.

    Returns:
        The bound; its ends are rounded to the safe side.
    """
    r = validate.integer(minimum=2, maximum=10**6, r=r)
    k = validate.integer(minimum=1, maximum=r // 2, k=k)
    eps0, alpha = validate.nonnegative(eps0=eps0), validate.nonnegative(alpha=alpha)
    method = validate.choice(METHODS, method=method)
    chosen = {"best": COUNTS, "refined": COUNTS[1:]}.get(method, (method,))
    found = {name: _log_odds(name, r, k, eps0, alpha) for name in chosen}
    name = max(found, key=found.__getitem__)
    log_odds = found[name]
    if log_odds == -math.inf:
        return ReidentificationBound(odds=0.0, win_cap=1.0, method=name)
    log_odds -= _ROUND_OFF * (1.0 + 2.0 * k * eps0 + alpha)
    if name != "paper":  # of the logarithms of factorials that are added
        log_odds -= _ROUND_OFF * (20.0 + 9.0 * math.lgamma(r + 1.0) + 15.0 * math.lgamma(k + 1.0))
    odds = math.exp(min(log_odds, 700.0))
    cap = 1.0 / (1.0 + odds) if log_odds < 36.0 else math.exp(-log_odds)
    # no underflow: a chance that is not 0 is not bounded by 0
    cap = math.nextafter(cap * (1.0 + 4.0 * 2.0**-53), math.inf)
    return ReidentificationBound(odds=odds, win_cap=min(cap, 1.0), method=name)


def _log_odds(count: str, r: int, k: int, eps0: float, alpha: float) -> float:
    """Logarithm of the odds that one count proves."""
    if eps0 + alpha > 1e300:  # costs may be no doubles, and the proved odds are 0
        return -math.inf
    if count == "paper":
        return math.log((r - k) // k) - 2.0 * k * eps0 - alpha
    if count == "full swaps":
        h, others = float(k), float(r - 2 * k)
        # M: an exchange that wins takes back more than half from h; more h, more of them
        t = np.arange(max(k // 2 + 1.0, h - others), k + 1.0)
        most = float(_log_sum(_log_binomial(h, t) + _log_binomial(others, k - t)))
        return float(_log_binomial(float(r - k), h)) - most - 2.0 * k * eps0 - alpha
    costs = _costs(r, k, eps0) + alpha
    return -float(_log_sum(costs[:, 0])) if count == "one layer" else _layers(costs)


def _log_binomial(n: Array | float, k: Array | float) -> Array:
    from scipy.special import gammaln

    return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))


def _log_sum(terms: Array, axis: int = 0) -> Array:
    from scipy.special import logsumexp

    return np.asarray(logsumexp(terms, axis=axis))


def _costs(r: int, k: int, eps0: float) -> Array:
    """Logarithms of c_wv/e^alpha; rows w = floor(k/2) + 1 … k, columns v = floor(k/2) … 0."""
    half = k // 2
    w = np.arange(half + 1.0, k + 1.0)[:, None]
    layers = 24 if w.size <= 200 else 1  # more layers only improve the bound
    v = np.arange(float(half), max(half - layers, -1), -1.0)[None, :]
    t = w - v
    costs = 2.0 * t * eps0 + 2.0 * _log_binomial(k - v, t) - _log_binomial(w, t)
    return np.asarray(costs - _log_binomial(r - 2.0 * k + w, t))


def _layers(costs: Array) -> float:
    """Logarithm of the largest odds that weights over several layers prove."""
    from scipy.optimize import linprog
    from scipy.sparse import block_array, csr_array

    rows, columns = costs.shape
    gains = -costs
    start = -float(_log_sum(costs[:, 0]))
    if columns == 1:
        return start
    # maximise z subject to z <= sum_v y_wv g_wv and sum_w y_wv <= 1, in units of the closed form,
    # clipped to e^-20 … e^20
    scaled = np.exp(np.clip(gains - start, -20.0, 20.0))
    shape = rows * columns
    entries = np.arange(shape)
    proves = csr_array((-scaled.ravel(), (entries // columns, entries)), shape=(rows, shape))
    spends = csr_array((np.ones(shape), (entries % columns, entries)), shape=(columns, shape))
    answer = linprog(
        np.append(np.zeros(shape), -1.0),
        A_ub=block_array([[proves, np.ones((rows, 1))], [spends, None]], format="csr"),
        b_ub=np.append(np.zeros(rows), np.ones(columns)),
        bounds=(0, None),
        method="highs",
    )
    if answer.x is None:
        return start
    weights = np.maximum(answer.x[:-1].reshape(rows, columns), 0.0)
    weights /= np.maximum(weights.sum(axis=0), 1.0)
    with np.errstate(divide="ignore"):  # no weight is log 0
        proved = _log_sum(np.log(weights) + gains, axis=1)
    return max(start, float(proved.min()))
