"""The bound of a log-moment generating function, where the masses it is made from may err."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.precision import MP, exact

from shuffle_accountant.numerics.budget import stress
from shuffle_accountant.sums.tilting import Letters

UNIT = 2.0**-30


@pytest.mark.parametrize("theta", [1e-6, 0.3, 4.0, 200.0])
@pytest.mark.parametrize("values", [[-1.0, 0.5, 2.0], [-3.0, -1e-3, 1e-3]])
def test_a_bound_of_masses_that_lost_sixteen_roundings(values: list[float], theta: float) -> None:
    masses = [0.5, 0.375, 0.125]
    truth = MP.log(
        MP.fsum(
            exact(p) * MP.exp(exact(theta) * exact(x)) for p, x in zip(masses, values, strict=True)
        )
    )
    x = np.array(values)
    # those that count for a positive moment are too small, the others too large
    mass = np.array(masses) * (1.0 + UNIT) ** (-16.0 * np.sign(x))
    with stress(roundoff=UNIT):
        found = Letters(x, mass, 10).log_mgf_bound(theta)
    assert exact(found) >= truth
    # some hundred roundings of numbers of the size of the exponents
    assert abs(exact(found) - truth) <= 1e3 * UNIT * (1.0 + 3.0 * theta)
