"""Sums of powers over frequencies, against 50 digits, for each number and from a few of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from oracles.precision import MP

from shuffle_accountant.lattice import power_sums as module
from shuffle_accountant.lattice.power_sums import PowerSums
from shuffle_accountant.lattice.spectra import Spectra

USERS = 40, 100


def spectra(seed: int, rows: int = 4, widest: float = 3.0) -> Spectra:
    """Frequencies as those of letters on a lattice are: several bumps, anywhere on the circle."""
    rng = np.random.default_rng(seed)
    count = rng.integers(60, 120, rows)
    parts = []
    for size in count.tolist():
        bumps = np.linspace(-widest, widest, 4)
        angle = np.sort(np.append(0.0, rng.choice(bumps, size - 1) + rng.normal(0, 0.01, size - 1)))
        parts.append(-rng.exponential(0.02, size) + 1j * angle)
    log = np.concatenate(parts)
    none = np.zeros(rows)
    return Spectra(
        index=np.arange(rows),
        count=count,
        log=log,
        terms=rng.normal(size=(3, log.size)) + 1j * rng.normal(size=(3, log.size)),
        doubt=np.zeros((3, log.size)),
        relative=np.full(log.size, 1e-15),
        phase=np.abs(log),
        dropped=np.zeros((3, rows)),
        log_scale=none,
        log_smooth=none,
        theta=none,
        variance=none,
        per_letter=none,
        sent=none,
        outside=none,
        rare=none,
        rare_gain=none,
        apart=np.zeros((9, rows)),
    )


def truth(found: Spectra, n: int) -> list[list[object]]:
    """The three sums of each row."""
    ends = np.cumsum(found.count).tolist()
    rows = [range(end - size, end) for end, size in zip(ends, found.count.tolist(), strict=True)]
    powers = [MP.exp(n * MP.mpc(complex(z))) for z in found.log]
    return [
        [MP.fsum((MP.mpc(complex(kind[j])) * powers[j]).real for j in row) for row in rows]
        for kind in found.terms
    ]


def within(found: tuple[np.ndarray, np.ndarray], sums: list[list[object]]) -> bool:
    value, error = found
    return all(
        abs(MP.mpf(float(value[i, j])) - sums[i][j]) <= float(error[i, j])
        for i in range(3)
        for j in range(value.shape[1])
    )


@pytest.mark.parametrize("seed", range(6))
def test_sums_are_what_they_are_stated_to_be(seed: int) -> None:
    """Each number by itself, and all of them from sixteen nodes."""
    found = spectra(seed)
    sums = PowerSums(found)
    few = sums.interpolated(USERS)
    assert few is not None
    assert few.phase.size <= found.log.size / 4
    for n in (*USERS, 41, 70, 71, 99):
        expected = truth(found, n)
        for way in (sums, few):
            assert within(way.at(n), expected)
            # sums of a hundred products of numbers about one
            assert np.all(way.at(n)[1] <= 1e-9)


@pytest.mark.parametrize(("nodes", "turn"), [(3, 6.0), (6, 6.0), (6, 20.0), (16, 40.0)])
def test_few_nodes_are_off_by_less_than_is_stated(
    nodes: int, turn: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_NODES", nodes)
    monkeypatch.setattr(module, "_TURN", turn)
    for seed in range(4):
        found = spectra(seed)
        few = PowerSums(found).interpolated(USERS)
        assert few is not None
        assert few.bent.min() > 1e-9
        for n in range(USERS[0], USERS[1] + 1, 7):
            assert within(few.at(n), truth(found, n))


@pytest.mark.parametrize(("log", "least"), [(-1e-4 + 0.02j, 0.2), (-0.2 + 0.0j, 1e-3)])
def test_the_bound_is_about_what_polynomials_are_off(
    log: complex, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One frequency: where its derivative is about the same everywhere, little is given away."""
    monkeypatch.setattr(module, "_NODES", 4)
    monkeypatch.setattr(module, "_FEWER", 1.0)
    base = spectra(0, rows=1)
    one = replace(base, count=np.array([1]), log=np.array([log]))
    one = replace(one, terms=base.terms[:, :1], doubt=base.doubt[:, :1])
    one = replace(one, relative=base.relative[:1], phase=base.phase[:1])
    few = PowerSums(one).interpolated(USERS)
    assert few is not None
    off = np.max([np.abs(few.at(n)[0] - PowerSums(one).at(n)[0]) for n in range(40, 101)], axis=0)
    assert np.all(off <= few.bent)
    assert np.all(off >= least * few.bent)


def test_spectra_that_are_off_are_part_of_the_error() -> None:
    found = spectra(1)
    off = replace(found, relative=np.full(found.log.size, 1e-9))
    few = PowerSums(off).interpolated(USERS)
    assert few is not None
    for sign in (-1.0, 1.0):
        moved = replace(found, log=found.log + np.log1p(sign * 1e-9))
        for n in USERS:
            assert within(few.at(n), truth(moved, n))


def test_coefficients_that_are_off_are_part_of_the_error() -> None:
    found = spectra(2)
    doubt = np.full(found.terms.shape, 1e-7)
    few = PowerSums(replace(found, doubt=doubt)).interpolated(USERS)
    assert few is not None
    for n in USERS:
        turned = np.exp(-1j * n * found.log.imag)
        moved = replace(found, terms=found.terms + doubt * turned)
        assert within(few.at(n), truth(moved, n))


def test_frequencies_that_have_nothing_in_common_are_left_alone() -> None:
    found = spectra(3)
    rng = np.random.default_rng(0)
    apart = replace(found, log=-0.01 + 1j * rng.uniform(-3.0, 3.0, found.log.size))
    assert PowerSums(apart).interpolated(USERS) is None


def test_no_row_has_no_sum() -> None:
    nothing = spectra(0).only(np.zeros(4, dtype=bool))
    assert PowerSums(nothing).at(50)[0].shape == (3, 0)
    assert PowerSums(nothing).interpolated(USERS) is None
