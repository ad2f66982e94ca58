"""Binomial masses and tails in high precision, for up to 1e12 trials.

The mass is a difference of log-gammas. The tail is the incomplete beta integral

    P(X >= k) = 1/B(k, n-k+1) * integral_0^p t^(k-1) (1-t)^(n-k) dt,

done by Gauss-Legendre panels under the logarithm of its (log-concave) integrand. mpmath's own
``betainc`` sums a hypergeometric series, which does not finish at a million trials; it is the
cross-check at small n. Both are computed with guard digits because the logarithms of the factors
reach 1e13 while their sum is of order one.
"""

from __future__ import annotations

import mpmath

from .precision import Real, exact

GUARDED = 90
"""Working digits: 50 wanted, 14 lost to cancellation of logarithms, the rest spare."""

NEGLIGIBLE = 120
"""The integral is cut where its integrand fell by e^-120 ~ 1e-52 from its largest value."""

PANELS = 12
"""Gauss-Legendre panels on what is kept; the log-integrand changes by about 10 on each."""

CTX = mpmath.mp.clone()
CTX.dps = GUARDED


def pmf(k: int, trials: int, p: float | Real) -> Real:
    """P(X = k) for X ~ Bin(trials, p), to about 50 digits; p strictly between 0 and 1."""
    if k < 0 or k > trials:
        return exact(0)
    probability = CTX.mpf(p)
    choices = CTX.loggamma(trials + 1) - CTX.loggamma(k + 1) - CTX.loggamma(trials - k + 1)
    weight = k * CTX.log(probability) + (trials - k) * CTX.log1p(-probability)
    return exact(CTX.exp(choices + weight))


def upper_tail(k: int, trials: int, p: float | Real) -> Real:
    """P(X >= k) for X ~ Bin(trials, p), with relative accuracy however small it is."""
    return exact(_upper(k, trials, CTX.mpf(p)))


def lower_tail(k: int, trials: int, p: float | Real) -> Real:
    """P(X <= k) for X ~ Bin(trials, p), with relative accuracy however small it is."""
    return exact(_upper(trials - k, trials, 1 - CTX.mpf(p)))


def _upper(k: int, trials: int, p: Real) -> Real:
    """P(X >= k) in guarded digits: the smaller side is integrated, the larger is 1 minus it."""
    if k <= 0:
        return CTX.mpf(1)
    if k > trials:
        return CTX.mpf(0)
    if k <= p * trials:
        return 1 - _integral(trials - k + 1, trials, 1 - p)
    return _integral(k, trials, p)


def _integral(k: int, trials: int, p: Real) -> Real:
    """The incomplete beta integral up to p; its integrand peaks near p or to the right of it."""

    def log_integrand(t: Real) -> Real:
        return (k - 1) * CTX.log(t) + (trials - k) * CTX.log1p(-t)

    peak = min(p, CTX.mpf(k - 1) / max(trials - 1, 1))
    top = log_integrand(peak) if peak > 0 else CTX.mpf(0)
    low, high = CTX.mpf(0), peak
    for _ in range(80 if peak > 0 else 0):  # where the log-integrand is NEGLIGIBLE below the top
        middle = (low + high) / 2
        if log_integrand(middle) < top - NEGLIGIBLE:
            low = middle
        else:
            high = middle
    edges = [low + (p - low) * i / PANELS for i in range(PANELS + 1)]
    area = CTX.quad(lambda t: CTX.exp(log_integrand(t) - top), edges, method="gauss-legendre")
    log_beta = CTX.loggamma(k) + CTX.loggamma(trials - k + 1) - CTX.loggamma(trials + 1)
    return area * CTX.exp(top - log_beta)
