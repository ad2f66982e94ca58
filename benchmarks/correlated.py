"""Correlated noise: certified ends, Rényi accounting and Monte Carlo; the picture of the guide.

    python -m benchmarks.correlated            # a table
    python -m benchmarks.correlated --picture  # docs/pictures/correlated.png

Monte Carlo draws from a defensive mixture: outputs without the record and, for several strengths,
outputs shifted towards a random bin; plain samples would miss what a delta of 1e-6 is made of.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import shuffle_accountant as sa

DELTA, BANDS, BINS = 1e-6, 8, 64
NOISE = (0.8, 1.0, 1.4, 2.0, 3.0, 4.0)
STRENGTHS = (0.0, 1.0, 2.0, 3.0)
SAMPLES = 400_000
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "correlated.png"


def banded(noise: float) -> sa.MatrixMechanism:
    """The square-root factorization of eight bands over one deal to 64 bins."""
    column = sa.sqrt_coefficients(bands=BANDS)
    return sa.MatrixMechanism(coefficients=column, noise_multiplier=noise, bins=BINS)


def sampled(noise: float, seed: int = 0) -> tuple[float, float]:
    """Epsilon by Monte Carlo for the removal of a record, and its standard error."""
    column = np.asarray(sa.sqrt_coefficients(bands=BANDS))
    column /= np.linalg.norm(column)
    encoder = sum(c * np.eye(BINS, k=-k) for k, c in enumerate(column))
    covariance = encoder.T @ encoder / noise**2
    rng = np.random.default_rng(seed)
    each = SAMPLES // len(STRENGTHS)
    logs = rng.standard_normal((each * len(STRENGTHS), BINS)) @ np.linalg.cholesky(covariance).T
    for place, strength in enumerate(STRENGTHS):
        rows = slice(place * each, (place + 1) * each)
        logs[rows] += strength * covariance[rng.integers(BINS, size=each)]
    half = 0.5 * np.diag(covariance)
    ratio = np.exp(logs - half).mean(axis=1)
    drawn = np.mean([np.exp(c * logs - c * c * half).mean(axis=1) for c in STRENGTHS], axis=0)

    def gain(epsilon: float) -> np.ndarray:
        return np.maximum(ratio - math.exp(epsilon), 0.0) / drawn

    found = float(brentq(lambda x: gain(x).mean() - DELTA, 0.0, 30.0))
    slope = (gain(found).mean() - gain(found + 1e-3).mean()) / 1e-3
    error = gain(found).std() / math.sqrt(ratio.size)
    return found, float(error / slope)


def main() -> None:
    """Print the table, or draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", action="store_true", help="draw docs/pictures/correlated.png")
    wanted = parser.parse_args()
    warnings.simplefilter("ignore", sa.LooseBracketWarning)
    rows = []
    for noise in NOISE:
        found = banded(noise).epsilon(delta=DELTA)
        revealed = sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=noise), rate=1.0)
        renyi = sa.baselines.rdp.epsilon(banded(noise), delta=DELTA)
        rows.append((noise, found.lower, found.upper, *sampled(noise), renyi))
        print(
            f"sigma {noise:4}: [{found.lower:.4f}, {found.upper:.4f}], Monte Carlo "
            f"{rows[-1][3]:.4f} +- {rows[-1][4]:.4f}, Rényi {renyi:.4f}, bin revealed "
            f"{revealed.epsilon(delta=DELTA).upper:.4f}"
        )
    if not wanted.picture:
        return
    from matplotlib import pyplot

    noise, low, high, middle, error, renyi = np.asarray(rows).T
    figure, ax = pyplot.subplots(figsize=(6.0, 4.0))
    ax.fill_between(noise, low, high, alpha=0.3, label="certified bracket")
    ax.plot(noise, high, label="certified upper end")
    ax.plot(noise, renyi, "--", label="Rényi accounting of the upper end's pair")
    ax.errorbar(noise, middle, 2.0 * error, fmt="k.", label="Monte Carlo, two standard errors")
    ax.set_xlabel("noise multiplier")
    ax.set_ylabel("ε at δ = 10⁻⁶")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.legend()
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
