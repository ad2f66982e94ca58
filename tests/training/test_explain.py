"""What a loader samples, by stand-ins of PyTorch's and Opacus' classes of the same names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.training import explain

GAUSSIAN = sa.GaussianMechanism(noise_multiplier=1.0)


def named(name: str, **values: Any) -> Any:
    length = values.pop("length", 0)
    return type(name, (SimpleNamespace,), {"__len__": lambda self: length})(**values)


def loader(
    sampler: Any, *, records: int = 100, size: int = 10, drop_last: bool = False, **batch: Any
) -> Any:
    batches = batch.get(
        "batches", named("BatchSampler", sampler=sampler, batch_size=size, drop_last=drop_last)
    )
    return SimpleNamespace(dataset=range(records), sampler=sampler, batch_sampler=batches)


RANDOM = named("RandomSampler", replacement=False, num_samples=100)


def test_shuffled_batches() -> None:
    found = explain(loader(RANDOM), noise_multiplier=1.0)
    assert found.sampling == "shuffled"
    epoch = sa.ShuffledBatches(noise_multiplier=1.0, steps=10)
    assert found.bracket(delta=1e-6) == sa.epsilon(epoch, delta=1e-6)
    sampled = sa.PoissonSampled(GAUSSIAN, rate=0.1)
    assert found.reported(delta=1e-6) == sa.epsilon(sampled, delta=1e-6, rounds=10).upper
    assert found.reported(delta=1e-6) < found.bracket(delta=1e-6).upper
    assert found.bracket(delta=1e-6, epochs=3) == sa.epsilon(epoch, delta=1e-6, rounds=3)
    assert "10 batches of 10" in str(found)


def test_what_is_left_over() -> None:
    """A smaller last batch is no shuffled batch of one size; dropping it makes the others so."""
    odd = named("RandomSampler", replacement=False, num_samples=95)
    found = explain(loader(odd, records=95), noise_multiplier=1.0)
    assert found.sampling == "unamplified"
    alone = sa.PoissonSampled(GAUSSIAN, rate=1.0).epsilon(delta=1e-6)
    assert found.bracket(delta=1e-6) == alone
    assert found.reported(delta=1e-6) < alone.upper
    kept = explain(loader(odd, records=95, drop_last=True), noise_multiplier=1.0)
    assert kept.protocol == sa.Protocol([(sa.ShuffledBatches(noise_multiplier=1.0, steps=9), 1)])


def test_every_sampler() -> None:
    opacus = named("UniformWithReplacementSampler", sample_rate=0.05, length=20)
    found = explain(loader(None, batches=opacus), noise_multiplier=1.0)
    assert found.sampling == "poisson"
    sampled = sa.PoissonSampled(GAUSSIAN, rate=0.05)
    assert found.bracket(delta=1e-6) == sa.epsilon(sampled, delta=1e-6, rounds=20)
    assert found.reported(delta=1e-6) == found.bracket(delta=1e-6).upper
    dealt = explain(loader(None, batches=named("AllocationSampler", length=10)), noise_multiplier=1)
    assert dealt.protocol == sa.Protocol([(sa.RandomAllocation(GAUSSIAN, steps=10), 1)])
    ours = explain(loader(None, batches=named("ShuffledSampler", size=20)), noise_multiplier=1)
    assert ours.protocol == sa.Protocol([(sa.ShuffledBatches(noise_multiplier=1.0, steps=5), 1)])
    fixed = explain(loader(named("SequentialSampler")), noise_multiplier=1.0)
    assert fixed.sampling == "unamplified"
    few = named("RandomSampler", replacement=False, num_samples=10)
    one = explain(loader(few), noise_multiplier=1.0)
    assert one.sampling == "fixed size"
    drawn = sa.FixedSizeSampled(GAUSSIAN, size=10, population=100)
    assert one.protocol == sa.Protocol([(drawn, 1)])


def test_the_optimizers_noise() -> None:
    found = explain(loader(RANDOM), SimpleNamespace(noise_multiplier=2.0))
    assert found.protocol == sa.Protocol([(sa.ShuffledBatches(noise_multiplier=2.0, steps=10), 1)])
    with pytest.raises(ValueError, match="noise_multiplier must be given"):
        explain(loader(RANDOM), SimpleNamespace())


@pytest.mark.parametrize(
    ("sampler", "reason"),
    [
        (named("WeightedRandomSampler"), "draw with weights"),
        (named("RandomSampler", replacement=True, num_samples=100), "with replacement"),
        (named("DistributedSampler"), "distributed"),
        (named("OwnSampler"), "known sampler, got OwnSampler"),
    ],
)
def test_refused(sampler: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        explain(loader(sampler), noise_multiplier=1.0)


def test_no_loader() -> None:
    with pytest.raises(TypeError, match="loader must be a DataLoader"):
        explain([1, 2], noise_multiplier=1.0)
    unknown = SimpleNamespace(dataset=iter([1]), sampler=None, batch_sampler=None)
    with pytest.raises(ValueError, match="known size"):
        explain(unknown, noise_multiplier=1.0)
    with pytest.raises(ValueError, match="known batch sampler, got Odd"):
        explain(loader(None, batches=named("Odd")), noise_multiplier=1.0)
    with pytest.raises(ValueError, match="a dataset of a record at least, got 0"):
        explain(loader(RANDOM, records=0), noise_multiplier=1.0)
    with pytest.raises(ValueError, match="a full batch"):
        explain(loader(RANDOM, size=200, drop_last=True), noise_multiplier=1.0)
