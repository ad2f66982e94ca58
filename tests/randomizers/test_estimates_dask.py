"""The same estimates from Dask collections, on a cluster of two processes."""

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.randomizers.vectors import PrivUnit

dask = pytest.importorskip("dask", reason="Dask is not installed (extra 'dask')")
distributed = pytest.importorskip("distributed", reason="Dask is not installed (extra 'dask')")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


ORACLES = [
    sa.RandomizedResponse(categories=50, eps0=2.0),
    sa.RAPPOR(categories=20, eps0=2.0),
    sa.HadamardResponse(categories=50, eps0=2.0),
    sa.SubsetSelection(categories=50, eps0=2.0),
    sa.LocalHashing(categories=50, eps0=2.0),
]


@pytest.mark.parametrize("oracle", ORACLES, ids=repr)
def test_arrays_on_a_cluster_give_the_estimate_of_one_machine(client, oracle):
    import dask.array as da

    rng = np.random.default_rng(4)
    messages = oracle.randomize(rng.integers(oracle.categories, size=20_000), rng)
    chunks = (1500, *(7,) * (messages.ndim - 1))  # also across messages
    found = oracle.estimate(da.from_array(messages, chunks=chunks))
    alone = oracle.estimate(messages)
    assert np.array_equal(found.values, alone.values)
    assert np.array_equal(found.standard_errors, alone.standard_errors)
    assert found.users == 20_000
    seen = client.run(lambda: True)
    assert len(seen) == 2


def test_vectors_on_a_cluster(client):
    import dask.array as da

    randomizer = PrivUnit(dimension=6, eps0=2.0)
    messages = randomizer.randomize(np.full((5000, 6), 0.2), np.random.default_rng(2))
    found = randomizer.estimate(da.from_array(messages, chunks=(700, 6)))
    alone = randomizer.estimate(messages)
    # sums of 64-bit floats in another order
    assert found.values == pytest.approx(alone.values, rel=1e-12)
    assert found.standard_errors == pytest.approx(alone.standard_errors, rel=1e-10)


def test_messages_made_and_counted_on_the_workers(client):
    """No process holds all messages: they are made chunk by chunk."""
    import dask.array as da

    oracle = sa.RandomizedResponse(categories=5, eps0=1.0)

    def chunk(values, block_info=None):
        seed = block_info[0]["chunk-location"][0]
        return oracle.randomize(values, np.random.default_rng(seed))

    values = da.arange(400_000, chunks=50_000) % 4
    found = oracle.estimate(values.map_blocks(chunk, dtype=np.int64))
    assert found.users == 400_000
    assert np.all(np.abs(found.values - np.array([0.25] * 4 + [0.0])) <= 4 * found.standard_errors)


def test_bags(client):
    import dask.bag as db

    oracle = sa.RandomizedResponse(categories=3, eps0=1.0)
    messages = [0, 1, 2, 2, 1, 1, 0, 0, 0]
    found = oracle.tally(db.from_sequence(messages, npartitions=4))
    assert found.tolist() == [4, 3, 2]


def test_sweeps_on_a_cluster(client):
    import joblib

    with joblib.parallel_config(backend="dask"):
        records = sa.sweep(
            sa.max_eps0,
            {"users": [1000, 10_000], "rounds": [1], "target_epsilon": [0.5], "delta": [1e-6]},
        )
    alone = [sa.max_eps0(users=n, rounds=1, target_epsilon=0.5, delta=1e-6) for n in (1000, 10_000)]
    assert [record.answer for record in records] == alone


def test_something_delayed_is_one_chunk(client):
    oracle = sa.RandomizedResponse(categories=3, eps0=1.0)
    assert oracle.tally(dask.delayed(list)((0, 2, 2))).tolist() == [1, 0, 2]
