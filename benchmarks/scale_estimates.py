"""Claim: estimates take seconds for a million users, and merge for a hundred million.

A million messages over a thousand categories for every frequency oracle; and 1e8 messages as a Dask
array, made and counted chunk by chunk in two processes, with the estimate of one machine. Intervals
of 95 % hold in 94 to 99.5 % of repetitions, whether two or 10,000 shares are estimated.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import shuffle_accountant as sa
from benchmarks.claims import Claim, Note, Outcome, compact

USERS, CATEGORIES, EPS0 = 10**6, 1000, 3.0
MANY, QUICK_MANY, CHUNK = 10**8, 10**6, 10**6
MOST_SECONDS, MOST_SECONDS_MANY = 5.0, 120.0
# Categories and eps0 of the coverage, its users, and how often their messages are drawn.
COVERED = ((2, 1.0), (10, 2.0), (100, 4.0), (1000, 6.0), (10_000, 9.0))
COVERED_USERS, REPETITIONS, QUICK_REPETITIONS = 10**6, 200, 10
COVERAGE = (0.94, 0.995)
SIGMAS = 5.0  # of a thousand frequencies the largest is beyond that once in two thousand runs


def run(quick: bool, note: Note) -> Outcome:
    """Time each oracle once, then the cluster; a tenth of the users when quick."""
    rng = np.random.default_rng(1)
    users = USERS // 10 if quick else USERS
    values = rng.integers(CATEGORIES, size=users) // 2
    shares = np.bincount(values, minlength=CATEGORIES) / users
    rows: list[dict[str, Any]] = []
    for oracle in _oracles():
        name = type(oracle).__name__
        note(name)
        messages = oracle.randomize(values, rng)
        start = time.perf_counter()
        found = oracle.estimate(messages)
        seconds = time.perf_counter() - start
        off = float(np.max(np.abs(found.values - shares) / found.standard_errors))
        rows.append({"oracle": name, "users": users, "seconds": seconds, "deviations": off})
    slowest = max(rows, key=lambda row: row["seconds"])
    off = max(row["deviations"] for row in rows)
    claims = [
        Claim(
            name="seconds",
            text=f"estimates from {compact(users)} messages over {CATEGORIES} categories take less "
            f"than {MOST_SECONDS:g} s",
            measured=f"at most {slowest['seconds']:.2f} s ({slowest['oracle']})",
            holds=slowest["seconds"] < MOST_SECONDS,
        ),
        Claim(
            name="accuracy",
            text=f"no frequency is off by more than {SIGMAS:g} standard errors",
            measured=f"at most {off:.2f}",
            holds=off <= SIGMAS,
        ),
        _cluster(QUICK_MANY if quick else MANY, note),
        _coverage(QUICK_REPETITIONS if quick else REPETITIONS, rng, note),
    ]
    return Outcome(claims, rows)


def _oracles() -> tuple[Any, ...]:
    given: dict[str, Any] = {"categories": CATEGORIES, "eps0": EPS0}
    return (
        sa.RandomizedResponse(**given),
        sa.HadamardResponse(**given),
        sa.SubsetSelection(**given),
        sa.LocalHashing(**given),
        sa.RAPPOR(**given),
    )


def _cluster(many: int, note: Note) -> Claim:
    """Messages that no process holds all of."""
    text = (
        f"{compact(many)} messages on two processes give the estimate of one machine in less than "
        f"{MOST_SECONDS_MANY:g} s"
    )
    try:
        import dask.array as da
        from distributed import Client, LocalCluster
    except ImportError:
        return Claim(name="cluster", text=text, measured="Dask is not installed", holds=None)
    oracle = sa.HadamardResponse(categories=CATEGORIES, eps0=EPS0)
    note(f"{compact(many)} messages in chunks of {compact(CHUNK)}")
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster),
    ):
        messages = da.arange(many, chunks=CHUNK).map_blocks(_chunk, oracle=oracle, dtype=np.int64)
        start = time.perf_counter()
        found = oracle.estimate(messages)
        seconds = time.perf_counter() - start
    tally = sum(
        oracle.tally(_chunk(np.arange(first, min(first + CHUNK, many)), oracle=oracle))
        for first in range(0, many, CHUNK)
    )
    alone = oracle.estimate_from(tally, many)
    same = np.array_equal(found.values, alone.values) and found.users == many
    return Claim(
        name="cluster",
        text=text,
        measured=f"{seconds:.1f} s, {'the same' if same else 'another'} estimate",
        holds=same and seconds < MOST_SECONDS_MANY,
    )


def _coverage(repetitions: int, rng: np.random.Generator, note: Note) -> Claim:
    """How often intervals hold: of each share, and of all of them at once.

    The tallies of RAPPOR are drawn as what they are, independent sums of coins for each category.
    """
    found: list[float] = []
    for categories, eps0 in COVERED:
        oracle = sa.RAPPOR(categories=categories, eps0=eps0)
        zipf = 1.0 / np.arange(1, categories + 1)
        for name, weights in (
            ("uniform", np.ones(categories)),
            ("Zipf", zipf),
            ("one value", np.eye(1, categories)[0]),
        ):
            note(f"coverage of {categories} shares, {name}")
            held = rng.multinomial(COVERED_USERS, weights / weights.sum())
            truth, own, other = held / COVERED_USERS, *oracle.yes_probabilities
            together, each = 0, 0.0
            for _ in range(repetitions):
                tally = rng.binomial(held, own) + rng.binomial(COVERED_USERS - held, other)
                estimate = oracle.estimate_from(tally, COVERED_USERS)
                low, high = estimate.interval(simultaneous=True)
                together += bool(np.all((low <= truth) & (truth <= high)))
                low, high = estimate.interval(simultaneous=False)
                each += float(np.mean((low <= truth) & (truth <= high)))
            found += [together / repetitions, each / repetitions]
    low, high = (  # but for three standard errors of the shares of repetitions
        share + sign * 3.0 * (share * (1.0 - share) / repetitions) ** 0.5
        for share, sign in zip(COVERAGE, (-1.0, 1.0), strict=True)
    )
    return Claim(
        name="coverage",
        text=f"intervals of 95 % hold in {COVERAGE[0]:.0%} to {COVERAGE[1]:.1%} of repetitions, "
        f"2 to {compact(COVERED[-1][0])} shares",
        measured=f"{min(found):.3f} to {max(found):.3f} in {repetitions} repetitions",
        holds=low <= min(found) and max(found) <= high,
    )


def _chunk(numbers: Any, *, oracle: Any) -> Any:
    """Messages of the users with these numbers, which seed them."""
    if numbers.size == 0:
        return numbers
    return oracle.randomize(numbers % CATEGORIES, np.random.default_rng(int(numbers[0])))
