"""Sums over nodes, where everything that is stated to err does, one source at a time.

Transforms are chosen; the true ones differ by all that one source may move them. Nodes are so close
to the real axis, next to theta, that the real part of every term is about its modulus.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from shuffle_accountant.sums import spectra, survey, tilted
from shuffle_accountant.sums.tilted import Tilted

THETA, T, WINDOW = 4.0, 2.0**-10, 2.0 * math.pi
OFF, UNIT = 2.0**-12, 2.0**-20
NEARLY = 0.99  # of what is stated: the rest is second order


def tilted_row(**chosen: Any) -> Tilted:
    """One row of two messages with step 1."""
    one = np.ones(1)
    values = {
        "index": np.zeros(1, dtype=np.intp),
        "theta": THETA * one,
        "variance": 1e-9 * one,
        "log_scale": 0.0 * one,
        "per_message": 0.0 * one,
        "alias": np.zeros((2, 1)),
        "y": np.array([[-1.0, 1.0]]),
        "weight": np.array([[0.5, 0.5]]),
        "sent": np.array([[0.25, 0.5]]),
        "mean": 0.0 * one,
        "spread": one,
        "window": WINDOW * one,
        "level": 700.0 * one,
        "last": 0.0 * one,
    }
    return Tilted(**values | chosen)


def made(
    rows: Tilted, users: int, phi: float, off: float = 0.0, sent: float = 0.75
) -> tuple[np.ndarray, np.ndarray]:
    """Sums over one node and bounds of their errors, from these transforms."""
    one = np.ones(1)
    less = (phi - 1.0) * one + 0j, (sent - rows.sent.sum()) * one + 0j
    top = min(phi + off, 1.0) * one
    row, dropped = np.zeros(1, dtype=np.intp), np.zeros((3, 1))
    nodes = spectra._coefficients(rows, (users, users), row, T * one, less, off * one, top, dropped)
    value, error = nodes.sums(users)
    return value[:, 0], error[:, 0]


def exactly(rows: Tilted, n: int, phi: complex, sent: complex) -> np.ndarray:
    """The three sums over one node, by the definition of what they stand for."""
    z, variance = complex(THETA, T), float(rows.variance[0])
    scale = 2.0 / WINDOW * cmath.exp(0.5 * variance * (z * z - THETA**2))
    turn = cmath.exp(1j * n * T * float(rows.mean[0]))
    every, one = turn * phi**n, turn * sent * phi ** (n - 1)
    return np.array([x.real for x in (scale / z**2 * every, scale * every, n * scale / z * one)])


def check(found: tuple[np.ndarray, np.ndarray], truth: np.ndarray) -> None:
    value, error = found
    assert np.all(np.abs(value - truth) <= error + 1e-13)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """No source errs but those that are chosen."""

    def choose(*, unit: float = 0.0, rounding: float = 0.0) -> None:
        monkeypatch.setattr(spectra, "UNIT_ROUNDOFF", unit)
        monkeypatch.setattr(Tilted, "rounding", rounding)

    choose()
    return choose


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_transforms_that_are_off(sign: float) -> None:
    rows = tilted_row()
    for n in (1, 6):
        for phi in (1.0 - OFF, 0.75):
            check(made(rows, n, phi, OFF), exactly(rows, n, phi + sign * NEARLY * OFF, 0.75))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_other_transforms_whose_arguments_and_sums_err(
    sign: float, quiet: Callable[..., None]
) -> None:
    """By their relative error, of the terms and of their angles, which are as large here."""
    quiet(rounding=OFF)
    rows = tilted_row(y=np.array([[-1.0, 1.0]]) / T)
    for n in (1, 6):
        moved = 0.75 + sign * NEARLY * OFF * (0.75 + 0.75)
        check(made(rows, n, 1.0), exactly(rows, n, 1.0, moved))


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_logarithms_whose_roundings_err(sign: float, quiet: Callable[..., None]) -> None:
    """And those of angles, which are far larger."""
    quiet(unit=UNIT)
    rows, n, phi = tilted_row(mean=np.array([64.0 / T])), 6, 0.25
    moved = 48.0 * UNIT * (abs(math.log(phi)) + 64.0)
    check(made(rows, n, phi), exactly(rows, n, phi * math.exp(sign * moved), 0.75))


def blocks(rows: Tilted, n: int, left_out: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    with np.errstate(divide="ignore"):
        nodes = spectra.of_blocks(rows, (n, n), np.zeros((1, 1)), np.full((3, 1), left_out))
    value, error = nodes.sums(n)
    return value[:, 0], error[:, 0]


def test_transforms_of_blocks_that_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Node 1 by a large part of itself, node 0 by nothing."""
    off = 0.125
    monkeypatch.setattr(Tilted, "off", lambda self, t: off * t)
    variance = 2.5 * math.pi  # no turn of node 1, and next to nothing beyond it
    more = {"variance": np.array([variance]), "last": np.ones(1)}
    rows, n = tilted_row(y=np.array([[-1.0, 1.0]]) * math.pi / 3.0, **more), 6
    value, error = blocks(rows, n)
    for phi in (0.5 - off, 0.5 + off):
        truth = (1.0 + 2.0 * math.exp(-0.5 * variance) * phi**n) / WINDOW
        assert abs(value[1] - truth) <= error[1]


def test_nodes_that_are_left_out_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of left-out blocks and all beyond the last one, though phi is 1 there."""
    monkeypatch.setattr(Tilted, "off", lambda self, t: 0.0 * t)
    rows, n = tilted_row(variance=np.array([0.05]), last=np.array([2.0])), 6
    j = np.arange(3.0, 99.0)
    z = np.hypot(THETA, j)
    for left_out in (0.0, 0.5):
        _, error = blocks(rows, n, left_out)
        for i, size in enumerate((1.0 / z**2, np.ones(j.size), 0.75 / z)):
            least = float(np.sum(np.exp(-0.025 * j**2) * size)) + left_out * (0.75, 1.0)[i < 2]
            assert error[i] >= (n if i == 2 else 1) * 2.0 / WINDOW * least


def test_nodes_of_kept_blocks_that_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the one at theta itself, where phi is a cosine."""
    monkeypatch.setattr(Tilted, "off", lambda self, t: 0.0 * t)
    one = np.ones(1)
    rows, n = tilted_row(variance=2.0 * one, last=2.0 * one, level=2.0 * one), 6
    with np.errstate(divide="ignore"):
        nodes = spectra.of_blocks(rows, (n, n), np.zeros((1, 1)), np.zeros((3, 1)))
    assert nodes.count.tolist() == [1]
    error, j = nodes.sums(n)[1][:, 0], np.array([1.0, 2.0])
    z, modulus = np.hypot(THETA, j), 2.0 / WINDOW * np.exp(-(j**2)) * np.abs(np.cos(j)) ** n
    assert error[0] >= np.sum(modulus / z**2)
    assert error[1] >= np.sum(modulus)
    # of the other transform no more is known than that it is 3/4 at most
    assert error[2] >= n * 0.75 * np.sum(modulus / np.abs(np.cos(j)) / z)


# ------------------------------------------------------------------------------- tilted messages


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_waves_that_err_are_an_error_of_phi(sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # roundings as they are stated
    monkeypatch.setattr(tilted, "UNIT_ROUNDOFF", UNIT)
    y, weight = np.array([[-12.0, 4.0]]), np.array([[0.25, 0.75]])
    rows = tilted_row(y=y, weight=weight)
    for t in (1.0, 5.0):
        angle = t * y[0]
        wave = np.exp(1j * angle) * (1.0 + sign * 32.0 * UNIT * np.abs(angle)) - 1.0
        moved = abs(np.sum(weight[0] * (wave - np.expm1(1j * angle))))
        assert moved <= float(rows.off(np.full((1, 1), t))[0, 0])


def test_phi_is_a_sum_of_one_and_less() -> None:
    """Which is rounded, and so is its modulus."""
    rows = tilted_row(y=np.zeros((1, 2)))
    assert float(rows.off(np.zeros((1, 1)))[0, 0]) >= 2.0 * 2.0**-53


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_windows_of_weights_that_are_off(sign: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by as many roundings as there are messages, those of one sign up, others down."""
    y, weight, sent = np.array([[-2.0, -0.5, 1.5]]), np.array([[0.25, 0.25, 0.5]]), np.ones((1, 3))
    if sign < 0.0:
        y, weight = -y[:, ::-1], weight[:, ::-1]
    one, users, unit = np.ones(1), (50, 50), 2.0**-14

    def window(weight: Any) -> float:
        law = y, weight, sent, one, 0.0 * one, np.sum(weight * y**2, axis=1), 0.01 * one
        return float(tilted._windows(law, users, 0.0 * one, -20.0 * one)[0][0])

    monkeypatch.setattr(tilted, "UNIT_ROUNDOFF", unit)
    found = window(weight)
    monkeypatch.setattr(tilted, "UNIT_ROUNDOFF", 0.0)
    truths = [
        window(weight),
        *(window(weight * (1.0 + s * 100.0 * unit * np.sign(y))) for s in (-1, 1)),
    ]
    assert max(truths) > truths[0]
    assert found >= max(truths)


# ------------------------------------------------------------------------------------- the survey


def test_moduli_that_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """By cosines and sines, and the additions of their products."""
    monkeypatch.setattr(survey, "UNIT_ROUNDOFF", UNIT)
    rows = tilted_row()
    zero = np.zeros(1)
    monkeypatch.setattr(survey, "_moduli", lambda *_: (zero + 0.5, zero))
    found = survey._largest_modulus(rows, np.zeros(1, dtype=np.intp), zero, zero)
    assert found[0] >= 0.5 + (2.0 * 16.0 + 2.0) * UNIT
