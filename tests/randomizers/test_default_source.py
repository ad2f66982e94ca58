"""Without `rng` everything that is private draws from the operating system's source."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant import training
from shuffle_accountant.order.mallows import MallowsKendall
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.vectors import DuchiL2, DuchiLInf, PrivUnit, SampledCoordinates
from shuffle_accountant.training.sampling import UserBatches

VALUES = np.zeros(400, dtype=int)
VECTORS = np.full((400, 3), 0.1)

# A randomizer of each kind that runs on data, and values for it.
RUNNING: dict[str, tuple[Any, Any]] = {
    "discrete": (sa.DiscreteRandomizer([[0.6, 0.4], [0.4, 0.6]]), VALUES),
    "duchi-l2": (DuchiL2(dimension=3, eps0=1.0), VECTORS),
    "duchi-linf": (DuchiLInf(dimension=3, eps0=1.0), VECTORS),
    "gaussian": (sa.GaussianRandomizer(sigma=1.0), VALUES),
    "gaussian vectors": (sa.GaussianVectors(noise_multiplier=1.0), VECTORS),
    "hadamard": (sa.HadamardResponse(categories=5, eps0=1.0), VALUES),
    "laplace": (sa.LaplaceRandomizer(eps0=1.0), VALUES),
    "local-hashing": (sa.LocalHashing(categories=5, eps0=1.0), VALUES),
    "privunit": (PrivUnit(dimension=3, eps0=1.0), VECTORS),
    "randomized-response": (sa.RandomizedResponse(categories=5, eps0=1.0), VALUES),
    "rappor": (sa.RAPPOR(categories=5, eps0=1.0), VALUES),
    "sampled-coordinates": (SampledCoordinates(dimension=3, eps0=1.0), VECTORS),
    "subset-selection": (sa.SubsetSelection(categories=9, eps0=1.0, size=2), VALUES),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "noise messages": lambda **rng: sa.NoiseMessages(
        categories=3, dummies=sa.Poisson(mean=50.0)
    ).shuffled(VALUES, **rng),
    "augmented shuffle": lambda **rng: sa.AugmentedShuffle(
        categories=3, keep=0.5, dummies=sa.Poisson(mean=50.0)
    ).shuffled(VALUES, **rng),
    "mean of gradients": lambda **rng: training.private_mean(
        VECTORS, PrivUnit(dimension=3, eps0=1.0), **rng
    ),
    "batches of users": lambda **rng: list(UserBatches(population=400, users=20, **rng)),
    "dealt users": lambda **rng: list(
        UserBatches(population=400, users=20, sampling="epoch", **rng)
    ),
    "order": lambda rng=None: MallowsKendall(400, 0.001).sample(rng),
}


def drawn(name: str, **rng: Any) -> list[Any]:
    if name in RUNNING:
        randomizer, values = RUNNING[name]
        return np.asarray(randomizer.randomize(values, **rng)).tolist()
    found = OTHERS[name](**rng)
    return [np.asarray(one).tolist() for one in found]


def test_every_kind_that_runs_is_here() -> None:
    kinds = {
        kind
        for kind, one in LocalRandomizer.kinds.items()
        if hasattr(one, "randomize") and one.__module__.startswith("shuffle_accountant.")
    }
    assert {one.kind for one, _ in RUNNING.values()} == kinds


@pytest.mark.parametrize("name", [*RUNNING, *OTHERS])
def test_by_default_nothing_is_reproducible(name: str) -> None:
    np.random.seed(0)  # noqa: NPY002
    first = drawn(name)
    np.random.seed(0)  # noqa: NPY002
    assert drawn(name) != first


@pytest.mark.parametrize("name", [*RUNNING, *OTHERS])
def test_by_default_the_operating_system_is_read(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that are read decide about everything: with the same ones the same comes out."""

    def with_bytes(seed: int) -> tuple[list[Any], int]:
        blocks, read = np.random.default_rng(seed), 0

        def urandom(size: int) -> bytes:
            nonlocal read
            read += size
            return blocks.bytes(size)

        monkeypatch.setattr(os, "urandom", urandom)
        return drawn(name), read

    drawn(name)  # compiles and imports what it needs, which may read random bytes as well
    first, read = with_bytes(1)
    assert read >= 400  # a byte for each user, at the very least
    # others in this process, as a pool that is made, may read more after it
    assert with_bytes(1)[0] == first
    assert with_bytes(2)[0] != first


@pytest.mark.parametrize("name", [*RUNNING, *OTHERS])
def test_a_generator_that_is_given_is_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(size: int) -> bytes:
        raise AssertionError("the operating system was read")

    seeds = [np.random.default_rng(3), np.random.default_rng(3)]
    drawn(name)  # which compiles what is compiled: that names files at random
    monkeypatch.setattr(os, "urandom", refuse)
    assert drawn(name, rng=seeds[0]) == drawn(name, rng=seeds[1])


def test_no_generator_of_the_package_is_seeded_by_default() -> None:
    """NumPy's `default_rng` is called with what a caller gave, or an experiment's seed."""
    root = Path(sa.__file__).parent
    calls = {}
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in ("default_rng", "RandomState"):
                calls.setdefault(path.relative_to(root).as_posix(), 0)
                calls[path.relative_to(root).as_posix()] += 1
    assert calls == {
        "audit/mailbag.py": 2,
        "order/arguments.py": 1,
        "training/experiments.py": 2,
    }
