"""DP-SGD with dealt records through Opacus, for real; skipped where PyTorch or Opacus is missing.

What a step must be is worked out without Opacus: one backward pass per record, clipped by hand.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import textwrap
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pages
import pytest

torch = pytest.importorskip("torch", reason="the plug-in is for PyTorch (extra opacus)")
opacus = pytest.importorskip("opacus", reason="the plug-in is for Opacus (extra opacus)")

from opacus.accountants import create_accountant  # noqa: E402
from opacus.layers import DPMultiheadAttention  # noqa: E402
from opacus.schedulers import ExponentialNoise  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import shuffle_accountant as sa  # noqa: E402
from shuffle_accountant.registry import sealed  # noqa: E402
from shuffle_accountant.training import BudgetExceeded  # noqa: E402
from shuffle_accountant.training.opacus import (  # noqa: E402
    AllocationAccountant,
    AllocationPrivacyEngine,
    AllocationSampler,
    ShuffledSampler,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
]

# others need Flower, and are run with it
WITH_OPACUS = [
    page for page in pages.PAGES if any("opacus" in text for _, text in pages.blocks(page, "py"))
]

RECORDS, FEATURES, DELTA, NORM = 60, 5, 1e-5, 0.7
# Sums of 60 numbers of the order of one in 32-bit floats, and Opacus' 1e-6 beside the norm.
SINGLE = 1e-5
# Noise that is there but far below `SINGLE`: a deal without any noise costs nothing finite.
SILENT = 1e-9


def data(records: int = RECORDS) -> Any:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((records, FEATURES)).astype(np.float32)
    return TensorDataset(torch.from_numpy(images), torch.from_numpy((images[:, 0] > 0).astype(int)))


def network() -> Any:
    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 2))


def private(batch: int = 10, seed: int = 1, engine: Any = None, **options: Any) -> Any:
    torch.manual_seed(seed)
    engine = engine or AllocationPrivacyEngine(rng=np.random.default_rng(seed))
    model = options.pop("module", None) or network()
    dataset = options.pop("dataset", None) or data()
    arguments = {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=1.0),
        "data_loader": DataLoader(dataset, batch_size=batch),
        "max_grad_norm": NORM,
        **options,
    }
    if "target_epsilon" in options:
        return engine, *engine.make_private_with_epsilon(**arguments)
    return engine, *engine.make_private(**{"noise_multiplier": 1.0, **arguments})


def one_step(model: Any, optimizer: Any, batch: Any, reduction: str = "mean") -> None:
    images, labels = batch
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels, reduction=reduction).backward()
    optimizer.step()


def epoch(model: Any, optimizer: Any, loader: Any, steps: int | None = None) -> None:
    for number, batch in enumerate(loader):
        if number == steps:
            break
        one_step(model, optimizer, batch)


def flat(model: Any) -> Any:
    return torch.cat([p.detach().flatten().clone() for p in model.parameters()])


def clipped_sum(model: Any, dataset: Any, records: Any) -> Any:
    """Sum of the clipped gradients of some records, one backward pass each."""
    plain = network()
    inner = getattr(model, "_module", model)
    plain.load_state_dict(inner.state_dict())
    total = torch.zeros(sum(p.numel() for p in plain.parameters()))
    for record in records:
        image, label = dataset[record]
        plain.zero_grad()
        nn.functional.cross_entropy(plain(image[None]), label[None].long()).backward()
        row = torch.cat([p.grad.flatten() for p in plain.parameters()])
        if torch.isfinite(row).all():
            total += row * min(1.0, NORM / float(row.norm()))
    return total


def refused(match: str, call: Any, error: Any = ValueError) -> None:
    with pytest.raises(error, match=match) as raised:
        call()
    assert "\n" not in str(raised.value)


def spent(*releases: int, steps: int = 6, noise_multiplier: float = 1.0) -> Any:
    """What so many steps of each of some deals cost, by the accountant alone."""
    step = sa.GaussianMechanism(noise_multiplier=noise_multiplier)
    accountant = sa.FourierAccountant()
    for released in releases:
        accountant.compose(sa.RandomAllocation(step, steps=steps, released=released))
    return accountant.epsilon(delta=DELTA)


# The samplers


def test_every_epoch_deals_every_record_once_and_anew() -> None:
    sampler = AllocationSampler(records=100, steps=7, rng=np.random.default_rng(3))
    epochs = [list(sampler) for _ in range(20)]
    placed = []
    for batches in epochs:
        assert len(batches) == len(sampler) == 7
        assert sorted(chain.from_iterable(batches)) == list(range(100))
        step = np.empty(100, int)
        for number, batch in enumerate(batches):
            step[batch] = number
        placed.append(step)
    # independent deals agree in a seventh of the records: 5 deviations of 19 * 100 comparisons
    agreement = np.mean([(a == b).mean() for a, b in pairwise(placed)])
    assert abs(agreement - 1 / 7) < 5 * math.sqrt(6 / 49 / 1900)


def test_a_records_step_is_uniform_and_independent_of_anothers() -> None:
    sampler = AllocationSampler(records=2, steps=3, rng=np.random.default_rng(4))
    counts = np.zeros((3, 3))
    deals = 4500
    for _ in range(deals):
        for _ in sampler:
            pass
        deal = sampler.deal
        assert deal is not None
        step = np.repeat(np.arange(3), deal.sizes)[np.argsort(deal.order)]
        counts[step[0], step[1]] += 1
    # chi-squared with 8 degrees of freedom: above 31 once in 7000 runs, and the seed is fixed
    assert ((counts - deals / 9) ** 2 / (deals / 9)).sum() < 31


def test_many_records_are_dealt_at_once() -> None:
    sampler = AllocationSampler(records=10**6, steps=1000, rng=np.random.default_rng(5))
    sizes = [len(batch) for batch in sampler]
    assert sum(sizes) == 10**6
    assert 800 < min(sizes) < max(sizes) < 1200  # 1000 with a deviation of 32


def test_empty_batches_hold_a_placeholder() -> None:
    sampler = AllocationSampler(records=3, steps=40, rng=np.random.default_rng(6))
    batches = list(sampler)
    assert sampler.deal is not None
    assert sampler.deal.sizes.sum() == 3
    for size, batch in zip(sampler.deal.sizes, batches, strict=True):
        assert batch == [0] if size == 0 else len(batch) == size


def test_shuffled_batches_have_one_size() -> None:
    sampler = ShuffledSampler(records=23, size=5, rng=np.random.default_rng(7))
    first, second = list(sampler), list(sampler)
    assert [len(batch) for batch in first] == [5] * 4
    for batches in (first, second):
        assert len(set(chain.from_iterable(batches))) == 20
    assert first != second


def test_one_iterator_at_a_time() -> None:
    sampler = AllocationSampler(records=20, steps=4, rng=np.random.default_rng(8))
    first = iter(sampler)
    next(first)
    refused("got a second one", lambda: next(iter(sampler)))
    next(first)  # which does not disturb it
    sampler.give_up()
    refused("an iterator of a deal that was given up", lambda: next(first))
    assert len(list(sampler)) == 4
    assert len(list(sampler)) == 4  # gone through without a step: nothing is owed


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rng: AllocationSampler(records=0, steps=2, rng=rng), "records must be an integer"),
        (lambda rng: AllocationSampler(records=4, steps=0, rng=rng), "steps must be an integer"),
        (lambda rng: ShuffledSampler(records=4, size=5, rng=rng), "size must be an integer"),
    ],
)
def test_bad_samplers(make: Any, message: str) -> None:
    refused(message, lambda: make(np.random.default_rng(1)))


# The accountant


def test_the_accountant_is_registered_and_keeps_deals_apart() -> None:
    accountant = create_accountant("allocation")
    assert isinstance(accountant, AllocationAccountant)
    assert accountant.get_epsilon(DELTA) == 0.0
    for deal in (4, 2, 6):
        for number in range(deal):
            accountant.step(noise_multiplier=1.0, steps=6, begins_deal=number == 0)
    assert len(accountant) == 12
    assert [entry.released for entry in accountant.history] == [4, 2, 6]
    assert accountant.get_epsilon(DELTA) == spent(4, 2, 6)
    # two halves of two deals are no whole one
    assert spent(3, 3).lower > spent(6).upper
    refused(
        "begins_deal must be",
        lambda: accountant.step(noise_multiplier=1.0, steps=6, begins_deal=False),
    )
    refused(
        "begins_deal must be",
        lambda: accountant.step(noise_multiplier=2.0, steps=6, begins_deal=False),
    )

    state = json.loads(json.dumps(accountant.state_dict()))
    resumed = create_accountant("allocation")
    resumed.load_state_dict(state)
    assert resumed.history == accountant.history
    assert resumed.get_delta(0.5) == accountant.get_delta(0.5)


def test_shuffled_epochs_count_whole() -> None:
    accountant = create_accountant("allocation")
    accountant.step(noise_multiplier=2.0, steps=6, sampling="shuffle")
    whole = sa.ShuffledBatches(noise_multiplier=2.0, steps=6)
    assert accountant.get_epsilon(DELTA) == sa.epsilon(whole, delta=DELTA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": "rdp"}, "mechanism must be 'allocation', got 'rdp'"),
        ({"schema": 7}, "schema must be an integer >= 1 and <= 2"),
        ({"history": [1]}, "history must hold objects"),
        (
            {
                "history": [
                    {"sampling": "poisson", "noise_multiplier": 1.0, "steps": 5, "released": 1}
                ]
            },
            "sampling must be one of",
        ),
        (
            {
                "history": [
                    {"sampling": "shuffle", "noise_multiplier": 1.0, "steps": 5, "released": 6}
                ]
            },
            "released must be an integer >= 1 and <= 5",
        ),
    ],
)
def test_bad_states_change_nothing(change: Any, message: str) -> None:
    accountant = create_accountant("allocation")
    accountant.step(noise_multiplier=1.0, steps=6)
    before = accountant.state_dict()
    changed = {name: held for name, held in before.items() if name != "digest"} | change
    refused(message, lambda: accountant.load_state_dict(sealed(changed)))
    assert accountant.state_dict() == before


def test_poisson_sampling_is_refused() -> None:
    engine = opacus.PrivacyEngine(accountant="allocation")
    model = network()
    refused(
        "use AllocationPrivacyEngine",
        lambda: engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data(), batch_size=10),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        ),
    )
    refused(
        "use AllocationPrivacyEngine",
        lambda: create_accountant("allocation").step(noise_multiplier=1.0, sample_rate=0.1),
    )


# Steps


@pytest.mark.parametrize("sampling", ["allocation", "shuffle"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_is_that_of_the_dealt_records(sampling: str, reduction: str) -> None:
    dataset = data()
    engine, model, optimizer, loader = private(
        dataset=dataset, noise_multiplier=SILENT, sampling=sampling, loss_reduction=reduction
    )
    sampler = loader.batch_sampler
    for batch in loader:
        deal, before = sampler.deal, flat(model)
        records = deal.batch(deal.yielded - 1)
        expected = clipped_sum(model, dataset, records)
        one_step(model, optimizer, batch, reduction)
        # whatever the real size: 60 records over 6 steps
        divisor = 10.0 if reduction == "mean" else 1.0
        assert torch.allclose(before - flat(model), expected / divisor, atol=SINGLE)
    assert len(engine.accountant) == 6


def test_the_expected_size_need_not_be_whole() -> None:
    """49 records in 49 batches: Opacus' own formula has a batch size of 0 there."""
    _, _, optimizer, loader = private(batch=1, dataset=data(49))
    assert optimizer.expected_batch_size == 1.0
    assert len(loader) == 49
    _, _, optimizer, loader = private(batch=8, dataset=data(60))
    assert len(loader) == 8
    assert optimizer.expected_batch_size == 7.5


def test_the_noise_has_the_right_deviation() -> None:
    """A module without gradients: what is left is noise over the expected batch size."""
    wide = nn.Linear(FEATURES, 4000, bias=False)
    sigma, norm = 1.7, 0.4
    _, model, optimizer, loader = private(
        module=wide, noise_multiplier=sigma, max_grad_norm=norm, dataset=data(30), batch=3
    )
    before = flat(model)
    images, _ = next(iter(loader))
    optimizer.zero_grad()
    (0.0 * model(images)).sum().backward()
    optimizer.step()
    noise = (flat(model) - before).numpy()
    # the mean square of 20,000 normal numbers is within 4 % of its mean but for 4 deviations
    assert np.mean(noise**2) == pytest.approx((sigma * norm / 3.0) ** 2, rel=0.04)
    assert abs(noise.mean()) < 4 * (sigma * norm / 3.0) / math.sqrt(noise.size)


class Attention(nn.Module):
    """Attention over the features of one record, which a batch of size 0 breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = DPMultiheadAttention(4, 2, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, images: Any) -> Any:
        tokens = images[:, :, None].expand(-1, -1, 4)
        seen, _ = self.attention(tokens, tokens, tokens)
        return self.head(seen.mean(dim=1))


@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        (network, "hooks"),
        (network, "functorch"),
        (network, "ew"),
        (Attention, "hooks"),
        (Attention, "functorch"),
    ],
)
def test_empty_batches_are_steps_of_noise_alone(kind: Any, mode: str) -> None:
    engine, model, optimizer, loader = private(
        module=kind(),
        batch=1,
        dataset=data(12),
        seed=2,
        noise_multiplier=SILENT,
        grad_sample_mode=mode,
    )
    empty = 0
    for batch in loader:
        deal, before = loader.batch_sampler.deal, flat(model)
        one_step(model, optimizer, batch)
        moved = float((flat(model) - before).norm())
        if deal.sizes[deal.released - 1] == 0:
            empty += 1
            assert moved < 1e-6  # the noise
        else:
            assert moved > 1e-4
    assert empty >= 2
    assert len(engine.accountant) == 12


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("clipping", ["flat", "per_layer"])
def test_a_gradient_that_is_not_finite_counts_as_zero(value: float, clipping: str) -> None:
    dataset = data()
    dataset.tensors[0][17, 2] = value
    norms = NORM if clipping == "flat" else [NORM] * 4
    engine, model, optimizer, loader = private(
        dataset=dataset, noise_multiplier=SILENT, clipping=clipping, max_grad_norm=norms
    )
    for batch in loader:
        deal, before = loader.batch_sampler.deal, flat(model)
        records = deal.batch(deal.yielded - 1)
        expected = clipped_sum(model, dataset, records)
        one_step(model, optimizer, batch)
        assert torch.isfinite(flat(model)).all()
        if clipping == "flat":
            assert torch.allclose(before - flat(model), expected / 10.0, atol=SINGLE)
    assert len(engine.accountant) == 6


def test_per_layer_clipping_bounds_every_parameter() -> None:
    norms = [0.1, 0.2, 0.3, 0.4]
    _, model, optimizer, loader = private(
        clipping="per_layer", max_grad_norm=norms, noise_multiplier=SILENT
    )
    before = [p.detach().clone() for p in model.parameters()]
    one_step(model, optimizer, next(iter(loader)))
    size = loader.batch_sampler.deal.sizes[0]
    for p, old, norm in zip(model.parameters(), before, norms, strict=True):
        assert float((p.detach() - old).norm()) <= norm * size / 10.0 + SINGLE


# Batches in parts


@pytest.mark.parametrize("most", [1, 4, 100])
def test_the_memory_manager_changes_nothing(most: int) -> None:
    """The same deal with and without it gives the same model, empty batches included."""
    results = []
    for parts in (False, True):
        engine, model, optimizer, loader = private(
            batch=4, dataset=data(24), noise_multiplier=SILENT, seed=3
        )
        if parts:
            with BatchMemoryManager(
                data_loader=loader, max_physical_batch_size=most, optimizer=optimizer
            ) as split:
                for batch in split:
                    assert len(batch[0]) <= most
                    one_step(model, optimizer, batch)
        else:
            epoch(model, optimizer, loader)
        assert len(engine.accountant) == 6
        assert engine.get_epsilon(DELTA) == spent(6, noise_multiplier=SILENT)
        results.append(flat(model))
    assert torch.allclose(*results, atol=SINGLE)


def test_a_batch_that_was_broken_off_is_no_part_of_the_next_epoch() -> None:
    dataset = data()
    engine, model, optimizer, loader = private(dataset=dataset, noise_multiplier=SILENT)
    manager = BatchMemoryManager(data_loader=loader, max_physical_batch_size=2, optimizer=optimizer)
    with manager as split:
        for number, batch in enumerate(split):
            if number == 1:
                break  # inside the first batch, with a part that was announced to the optimizer
            one_step(model, optimizer, batch)
        assert len(engine.accountant) == 0
        before, made = flat(model), []
        for batch in split:
            deal = loader.batch_sampler.deal
            if deal.released == len(made):
                made.append(clipped_sum(model, dataset, deal.batch(deal.released)))
            one_step(model, optimizer, batch)
            if deal.released == 1:
                break
    assert torch.allclose(before - flat(model), made[0] / 10.0, atol=SINGLE)
    assert engine.get_epsilon(DELTA) == spent(1, noise_multiplier=SILENT)


def test_workers_may_run_ahead() -> None:
    loader = DataLoader(data(), batch_size=10, num_workers=1)
    engine, model, optimizer, loader = private(data_loader=loader)
    epoch(model, optimizer, loader)
    assert engine.get_epsilon(DELTA) == spent(6)
    epoch(model, optimizer, loader, steps=5)  # the worker has drawn all six
    refused(
        "must not begin before all steps of the last one are made, got 5 of 6",
        lambda: next(iter(loader)),
    )
    engine.end_epoch()
    epoch(model, optimizer, loader, steps=1)
    assert engine.get_epsilon(DELTA) == spent(6, 5, 1)


# What is no step


def test_steps_that_no_theorem_covers() -> None:
    engine, model, optimizer, loader = private()
    batches = iter(loader)
    images, labels = next(batches)
    kept = images.clone(), labels.clone()
    before = flat(model)
    less = images[:-1], labels[:-1]
    refused("one whole batch", lambda: one_step(model, optimizer, less))
    more = torch.cat([images, images]), torch.cat([labels, labels])
    refused("one whole batch", lambda: one_step(model, optimizer, more))
    assert torch.equal(before, flat(model))
    assert all(p.grad is None for p in model.parameters())  # they are not private
    one_step(model, optimizer, kept)
    refused("got none since the last step", lambda: one_step(model, optimizer, kept))
    one_step(model, optimizer, next(batches))
    assert len(engine.accountant) == 2
    batch = next(batches)
    model.eval()
    assert model(batch[0]).shape[1] == 2  # without a gradient it is as good as ever
    refused("in training mode", lambda: one_step(model, optimizer, batch))
    model.train()
    frozen = next(model.parameters())
    frozen.requires_grad_(False)
    refused("must keep the 4 trainable parameters", lambda: one_step(model, optimizer, batch))
    frozen.requires_grad_(True)
    one_step(model, optimizer, batch)
    assert len(engine.accountant) == 3


def test_gradients_are_not_accumulated() -> None:
    engine, model, optimizer, loader = private()
    batches = iter(loader)
    images, labels = next(batches)
    nn.functional.cross_entropy(model(images), labels).backward()
    with pytest.raises(ValueError, match="not compatible with grad accumulation"):
        nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.zero_grad()
    assert len(engine.accountant) == 0


@pytest.mark.parametrize("worst", [0.0, math.inf])
def test_a_scaled_loss_is_refused(worst: float) -> None:
    engine, model, optimizer, loader = private()
    images, labels = next(iter(loader))
    images[0, 0] += worst
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    scaler.scale(nn.functional.cross_entropy(model(images), labels)).backward()
    refused("must be made without a GradScaler", lambda: scaler.step(optimizer))
    assert len(engine.accountant) == 0


def test_noise_changes_between_epochs_only() -> None:
    engine, model, optimizer, loader = private(noise_multiplier=1.0)
    scheduler = ExponentialNoise(optimizer, gamma=0.5)
    epoch(model, optimizer, loader)
    scheduler.step()
    batches = iter(loader)
    one_step(model, optimizer, next(batches))
    scheduler.step()
    refused(
        "must not change in the middle of an epoch, got 0.25 after 0.5",
        lambda: one_step(model, optimizer, next(batches)),
    )
    expected = (
        sa.FourierAccountant()
        .compose(sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=6))
        .compose(
            sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=0.5), steps=6, released=1)
        )
    )
    assert engine.get_epsilon(DELTA) == expected.epsilon(delta=DELTA)


SCHEDULE = [0.5, 0.75, 1.0, 1.5, 2.0, 4.0]


def test_noise_may_differ_from_step_to_step(tmp_path: Path) -> None:
    """A list fixed beforehand: each step has its noise, and each deal its certified price."""
    wide = nn.Linear(FEATURES, 4000, bias=False)
    engine, model, optimizer, loader = private(module=wide, noise_multiplier=SCHEDULE, batch=10)
    step = sa.GaussianMechanism(noise_multiplier=SCHEDULE)
    path = tmp_path / "checkpoint.pt"
    for deal in range(2):
        for number, (images, _) in enumerate(loader):
            before = flat(model)
            optimizer.zero_grad()
            (0.0 * model(images)).sum().backward()
            optimizer.step()
            noise = (flat(model) - before).numpy()
            # the mean square of 20,000 normal numbers is within 4 % but for 4 deviations
            deviation = SCHEDULE[number] * NORM / 10.0
            assert np.mean(noise**2) == pytest.approx(deviation**2, rel=0.04)
            if (deal, number) == (1, 2):
                engine.save_checkpoint(path=path, module=model, with_deal=True)
                parts = sa.Protocol(
                    [
                        (sa.RandomAllocation(step, steps=6), 1),
                        (sa.RandomAllocation(step, steps=6, released=3), 1),
                    ]
                )
                assert engine.get_epsilon(DELTA) == sa.epsilon(parts, delta=DELTA)
    both = sa.epsilon(sa.RandomAllocation(step, steps=6), rounds=2, delta=DELTA)
    assert engine.get_epsilon(DELTA) == both
    assert both.lower > sa.epsilon(
        sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=4.0), steps=6),
        rounds=2,
        delta=DELTA,
    )
    later, model, optimizer, loader = private(
        module=nn.Linear(FEATURES, 4000, bias=False), noise_multiplier=SCHEDULE, dataset=data()
    )
    later.load_checkpoint(path=path, module=model)
    epoch(model, optimizer, loader)  # the other three steps of the second deal
    assert later.get_epsilon(DELTA) == both

    ExponentialNoise(optimizer, gamma=0.5).step()
    refused(
        "noise_multiplier must not be changed where make_private was given one for each step",
        lambda: one_step(model, optimizer, next(iter(loader))),
    )
    falling = SCHEDULE[::-1]  # each step costs clearly more than those before
    step = sa.GaussianMechanism(noise_multiplier=falling)
    first = float(sa.epsilon(sa.RandomAllocation(step, steps=6, released=2), delta=DELTA))
    _, model, optimizer, loader = private(
        noise_multiplier=falling, max_epsilon=first, target_delta=DELTA
    )
    refused("step 3 would exceed", lambda: epoch(model, optimizer, loader), BudgetExceeded)


def test_users_who_own_several_records(tmp_path: Path) -> None:
    """The user is the unit: at most so many of its records are dealt, and they are paid for."""
    owners = np.repeat(np.arange(24), [5, 1] + [3] * 4 + [2] * 12 + [3] * 6)
    owners = np.random.default_rng(3).permutation(owners)
    assert len(owners) == RECORDS
    step = sa.GaussianMechanism(noise_multiplier=1.0)
    for most, kept in ((None, 60), (3, 58), (2, 47), (1, 24)):
        engine, model, optimizer, loader = private(user_ids=owners, records_per_user=most)
        assert engine.left_out == RECORDS - kept
        assert len(loader.batch_sampler.records) == kept
        assert np.bincount(owners[loader.batch_sampler.records]).max() == (most or 5)
        assert optimizer.expected_batch_size == kept / 6
        seen = list(chain.from_iterable(deal_of(loader)))
        assert sorted(seen) == loader.batch_sampler.records.tolist()
        epoch(model, optimizer, loader)
        once = sa.RandomAllocation(step, steps=6, records_per_user=most or 5)
        assert engine.get_epsilon(DELTA) == sa.epsilon(once, delta=DELTA)
        epoch(model, optimizer, loader, 2)  # a part costs as much as all of it, but for one record
        part = once if most != 1 else sa.RandomAllocation(step, steps=6, released=2)
        both = sa.epsilon(sa.Protocol([(once, 1), (part, 1)]), delta=DELTA)
        assert engine.get_epsilon(DELTA) == both
        path = tmp_path / f"{most}.pt"
        engine.save_checkpoint(path=path, module=model)
        resumed, again, *_ = private(user_ids=owners, records_per_user=most)
        resumed.load_checkpoint(path=path, module=again)
        assert resumed.get_epsilon(DELTA) == both

    named = [f"user {owner}" for owner in owners]
    target = {"target_epsilon": 4.0, "target_delta": DELTA, "epochs": 2}
    engine, model, optimizer, loader = private(user_ids=named, records_per_user=2, **target)
    epoch(model, optimizer, loader)
    epoch(model, optimizer, loader)
    assert engine.get_epsilon(DELTA) <= 4.0
    noise = sa.min_noise_multiplier(
        sampling="allocation",
        steps=6,
        epochs=2,
        records_per_user=2,
        target_epsilon=4.0,
        delta=DELTA,
    )
    assert optimizer.noise_multiplier == noise
    refused("step 13 would exceed", lambda: epoch(model, optimizer, loader), BudgetExceeded)


def test_steps_of_records_are_no_steps_of_users(tmp_path: Path) -> None:
    """A user owns two records: two epochs that were paid for by the record cost more than that."""
    owners, path = list(range(30)) * 2, tmp_path / "checkpoint.pt"
    engine, model, optimizer, loader = private()
    epoch(model, optimizer, loader)
    engine.save_checkpoint(path=path, module=model)
    again: dict[str, Any] = {"engine": engine, "dataset": engine.dataset, "user_ids": owners}
    for most in (1, 2):
        refused(
            "user_ids must be given for all steps or for none",
            lambda most=most: private(**again, records_per_user=most),  # type: ignore[misc]
        )
    other, its_model, *_ = private(user_ids=owners, records_per_user=1)
    refused(
        "another configuration, .*'one record'.*'one user'",
        lambda: other.load_checkpoint(path=path, module=its_model),
    )
    loaded = AllocationPrivacyEngine()
    loaded.accountant.load_state_dict(engine.accountant.state_dict())
    refused(
        "user_ids must be given for all steps or for none",
        lambda: private(engine=loaded, user_ids=owners),
    )
    by_user = AllocationAccountant()
    by_user.step(noise_multiplier=1.0, steps=6, records_per_user=1)
    refused(
        "those recorded are of a user",
        lambda: by_user.step(noise_multiplier=1.0, steps=6),
    )
    copy = AllocationAccountant()
    copy.load_state_dict(json.loads(json.dumps(by_user.state_dict())))
    assert copy.history == by_user.history


def deal_of(loader: Any) -> list[list[int]]:
    """The batches of one more deal, of which none is used."""
    sampler = loader.batch_sampler
    list(sampler)
    batches = [sampler.deal.batch(step) for step in range(len(sampler))]
    sampler.give_up()
    return batches


# Budgets


def test_epsilon_in_the_middle_of_an_epoch() -> None:
    engine, model, optimizer, loader = private()
    assert engine.get_epsilon(DELTA) == 0.0
    seen = []
    for batch in loader:
        one_step(model, optimizer, batch)
        seen.append(engine.get_epsilon(DELTA))
    assert seen == [spent(released) for released in range(1, 7)]
    assert seen == sorted(seen)
    epoch(model, optimizer, loader, steps=2)
    epoch(model, optimizer, loader)
    assert engine.get_epsilon(DELTA) == spent(6, 2, 6)


def test_calibration_meets_the_target_and_the_budget_refuses_before_the_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, model, optimizer, loader = private(target_epsilon=2.0, target_delta=DELTA, epochs=3)
    least = sa.min_noise_multiplier(
        sampling="allocation", steps=6, epochs=3, target_epsilon=2.0, delta=DELTA
    )
    assert optimizer.noise_multiplier == float(least)
    for _ in range(3):
        epoch(model, optimizer, loader)
    assert len(engine.accountant) == 18
    assert 1.99 < engine.get_epsilon(DELTA) <= 2.0

    def no_noise(*_: Any) -> None:
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(type(optimizer), "add_noise", no_noise)
    before = flat(model)
    refused(
        "step 19 would exceed epsilon = 2", lambda: epoch(model, optimizer, loader), BudgetExceeded
    )
    assert torch.equal(before, flat(model))
    assert all(p.grad is None and p.summed_grad is None for p in model.parameters())
    assert len(engine.accountant) == 18
    refused(
        "needs an engine without steps, got one with 18",
        lambda: private(engine=engine, target_epsilon=2.0, target_delta=DELTA, epochs=3),
    )


def test_a_budget_ends_in_the_middle_of_an_epoch() -> None:
    """As many steps as fit, by asking for every number of them."""
    limit = 0.5 * (float(spent(6, 3)) + float(spent(6, 4)))
    engine, model, optimizer, loader = private(max_epsilon=float(limit), target_delta=DELTA)
    epoch(model, optimizer, loader)
    refused("step 10 would exceed", lambda: epoch(model, optimizer, loader), BudgetExceeded)
    assert engine.get_epsilon(DELTA) == spent(6, 3)


def test_the_budget_of_shuffled_epochs() -> None:
    engine, model, optimizer, loader = private(
        sampling="shuffle", target_epsilon=3.0, target_delta=DELTA, epochs=2
    )
    for _ in range(2):
        epoch(model, optimizer, loader)
    one = sa.ShuffledBatches(noise_multiplier=optimizer.noise_multiplier, steps=6)
    assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=2) <= 3.0
    refused("step 13 would exceed", lambda: epoch(model, optimizer, loader), BudgetExceeded)


# Checkpoints


def test_a_resumed_run_deals_anew_and_counts_what_was_released(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    engine, model, optimizer, loader = private()
    epoch(model, optimizer, loader)
    epoch(model, optimizer, loader, steps=2)
    engine.save_checkpoint(path=path, module=model, optimizer=optimizer)
    held = torch.load(path, weights_only=True)
    assert set(held) == {
        "module_state_dict",
        "optimizer_state_dict",
        "privacy_accountant_state_dict",
    }

    other, again, its_optimizer, its_loader = private(seed=2)
    other.load_checkpoint(path=path, module=again, optimizer=its_optimizer)
    assert torch.equal(flat(model), flat(again))
    assert other.get_epsilon(DELTA) == engine.get_epsilon(DELTA) == spent(6, 2)
    epoch(again, its_optimizer, its_loader)
    assert other.get_epsilon(DELTA) == spent(6, 2, 6)


def test_a_resumed_deal_goes_on_where_it_was(tmp_path: Path) -> None:
    """The rest of the epoch uses the records that were not used, and is one round with it."""
    path, dataset = tmp_path / "checkpoint.pt", data()
    limit = {"max_epsilon": float(spent(6)), "target_delta": DELTA}
    engine, model, optimizer, loader = private(dataset=dataset, **limit)
    batches = iter(loader)
    for _ in range(2):
        one_step(model, optimizer, next(batches))
    deal = loader.batch_sampler.deal
    used = deal.batch(0) + deal.batch(1)
    next(batches)  # handed out, but no step: it comes again
    engine.save_checkpoint(path=path, module=model, with_deal=True)
    assert "secret_deal" in torch.load(path, weights_only=True)

    other, again, its_optimizer, its_loader = private(dataset=dataset, seed=2, **limit)
    other.load_checkpoint(path=path, module=again)
    rest = []
    for batch in its_loader:
        deal = its_loader.batch_sampler.deal
        rest += deal.batch(deal.yielded - 1)
        one_step(again, its_optimizer, batch)
    assert sorted(used + rest) == list(range(RECORDS))
    assert other.get_epsilon(DELTA) == spent(6)
    refused("step 7 would exceed", lambda: epoch(again, its_optimizer, its_loader), BudgetExceeded)
    refused(
        "needs a call of make_private first",
        lambda: AllocationPrivacyEngine().load_checkpoint(path=path, module=again),
    )


def test_loading_gives_up_the_deal_at_hand(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    engine, model, optimizer, loader = private()
    epoch(model, optimizer, loader)
    engine.save_checkpoint(path=path, module=model, with_deal=True)  # between epochs: none
    assert "secret_deal" not in torch.load(path, weights_only=True)
    batches = iter(loader)
    batch = next(batches)
    engine.load_checkpoint(path=path, module=model)
    refused("got none since the last step", lambda: one_step(model, optimizer, batch))
    refused("deal that was given up", lambda: next(batches))
    other, again, _, _ = private(batch=20)
    before = flat(again)
    refused("another configuration", lambda: other.load_checkpoint(path=path, module=again))
    assert torch.equal(before, flat(again))
    assert len(other.accountant) == 0


# Processes


class NeverAsked(Exception):
    """A calibration began although an argument is wrong."""


WRONG: list[dict[str, Any]] = [
    {"optimizer": "sgd"},
    {"optimizer": torch.optim.SGD(network().parameters(), lr=1.0)},
    {"optimizer": torch.optim.LBFGS(network().parameters())},
    {"max_grad_norm": -1.0},
    {"loss_reduction": "median"},
    {"clipping": "adaptive"},
    {"grad_sample_mode": "none"},
    {"sampling": "poisson"},
    {"epochs": 0},
    {"poisson_sampling": True},
    {"nonsense": 1},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
def test_arguments_are_checked_before_the_noise_is_worked_out(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(**given: Any) -> float:
        raise NeverAsked

    engine = "shuffle_accountant.training.opacus.batches"
    monkeypatch.setattr(f"{engine}.min_noise_multiplier", never)
    question = {"target_epsilon": 2.0, "target_delta": DELTA, "epochs": 2}
    with pytest.raises(NeverAsked):
        private(**question)
    with pytest.raises((TypeError, ValueError)) as error:
        private(**{**question, **wrong})
    assert "\n" not in str(error.value)


RANKS = """
    import sys
    import numpy as np, torch, warnings
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Distributed
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset
    from shuffle_accountant.training.opacus import AllocationPrivacyEngine

    warnings.simplefilter("ignore")
    rank, path = int(sys.argv[1]), sys.argv[2]
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{path}/store", rank=rank, world_size=2
    )
    torch.manual_seed(rank)
    records = torch.eye(11)
    module = Distributed(nn.Linear(11, 1, bias=False))
    engine = AllocationPrivacyEngine(rng=np.random.default_rng(1))
    module, optimizer, loader = engine.make_private(
        module=module,
        optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
        data_loader=DataLoader(TensorDataset(records), batch_size=1),
        noise_multiplier=1e-9,
        max_grad_norm=1.0,
    )
    steps = []
    for (images,) in loader:
        before = next(module.parameters()).detach().clone()
        optimizer.zero_grad()
        model_output = module(images).mean().backward()
        optimizer.step()
        steps.append((before - next(module.parameters()).detach()).flatten())
    deal = loader.batch_sampler.deal
    torch.save(
        {
            "steps": torch.stack(steps), "order": torch.tensor(deal.order),
            "sizes": torch.tensor(deal.sizes), "made": len(engine.accountant),
            "epsilon": float(engine.get_epsilon(1e-5)),
        },
        f"{path}/{rank}.pt",
    )
    torch.distributed.destroy_process_group()
"""


def test_two_processes_deal_their_own_shares(tmp_path: Path) -> None:
    """Gradients of a linear model of unit vectors show who was in which step."""
    if not torch.distributed.is_available():
        pytest.skip("this build of PyTorch has no processes to distribute over")
    program = textwrap.dedent(RANKS)
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(rank), str(tmp_path)])
        for rank in (0, 1)
    ]
    assert [process.wait(timeout=600) for process in running] == [0, 0]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in (0, 1))
    assert torch.equal(first["steps"], second["steps"])  # one model
    assert first["made"] == second["made"] == len(first["steps"]) == 11
    assert first["epsilon"] == second["epsilon"]
    assert sorted(first["order"].tolist()) == list(range(0, 11, 2))
    assert sorted(second["order"].tolist()) == list(range(1, 11, 2))
    placed = [np.repeat(np.arange(11), one["sizes"].numpy()) for one in (first, second)]
    own = [w[np.argsort(o["order"].numpy())] for o, w in zip((first, second), placed, strict=True)]
    assert not np.array_equal(own[0][:5], own[1])  # though both were seeded alike
    # each record moves its own weight once, by 1/(expected size of both shares together)
    steps = first["steps"].numpy()
    for one, where in zip((first, second), placed, strict=True):
        for record, step in zip(one["order"].tolist(), where, strict=True):
            expected = np.zeros(11)
            expected[step] = 1.0
            assert steps[:, record] == pytest.approx(expected, abs=SINGLE)


# Refusals


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"rand_on_empty": True}, ValueError, "rand_on_empty must not be given"),
        ({"poisson_sampling": False}, ValueError, "poisson_sampling must not be given"),
        ({"wrap": 1}, TypeError, "no argument 'wrap'"),
        ({"clipping": "adaptive"}, ValueError, "clipping must be one of 'flat', 'per_layer'"),
        (
            {"grad_sample_mode": "ghost"},
            ValueError,
            "to save memory use Opacus' BatchMemoryManager",
        ),
        ({"grad_sample_mode": "ghost_fsdp"}, ValueError, "grad_sample_mode must be one of"),
        ({"grad_sample_mode": "no_op"}, ValueError, "grad_sample_mode must be one of"),
        ({"noise_multiplier": 0.0}, ValueError, "noise_multiplier must be a finite number > 0"),
        ({"max_grad_norm": 0.0}, ValueError, "max_grad_norm must be a finite number > 0"),
        ({"sampling": "poisson"}, ValueError, "sampling must be one of 'allocation', 'shuffle'"),
        ({"max_epsilon": 1.0}, TypeError, "target_delta must be"),
        ({"loss_reduction": "none"}, ValueError, "loss_reduction must be one of"),
        ({"optimizer": []}, TypeError, "optimizer must be an Optimizer"),
        ({"target_epsilon": 1.0, "target_delta": DELTA, "epochs": 0}, ValueError, "epochs must be"),
        ({"target_epsilon": 0.0, "target_delta": DELTA, "epochs": 1}, ValueError, "target_epsilon"),
        ({"dataset": data(65), "sampling": "shuffle"}, ValueError, "places in a short last batch"),
        ({"noise_multiplier": [1.0] * 5}, ValueError, "one for each of the steps=6, got 5"),
        (
            {"noise_multiplier": [1.0] * 6, "sampling": "shuffle"},
            ValueError,
            "got 6 with sampling='shuffle'",
        ),
        (
            {"noise_multiplier": [1.0] * 6, "user_ids": [0] * 2 + list(range(58))},
            ValueError,
            "noise_multiplier must be one number with selected or records_per_user",
        ),
        ({"records_per_user": 2}, ValueError, "records_per_user needs user_ids, got 2"),
        ({"user_ids": range(59)}, ValueError, "user_ids must be whole numbers or texts, one for"),
        ({"user_ids": [0.5] * 60}, ValueError, "user_ids must be whole numbers or texts, one for"),
        ({"user_ids": [1] * 60}, ValueError, "records_per_user must be at most 12 with together"),
        (
            {"user_ids": range(60), "records_per_user": 0},
            ValueError,
            "records_per_user must be an integer",
        ),
        ({"user_ids": range(60), "sampling": "shuffle"}, ValueError, "user_ids must be left out"),
        ({"batch": 61}, ValueError, "batch_size must be at most 60 records, got 61"),
    ],
)
def test_bad_arguments(options: Any, error: Any, message: str) -> None:
    engine = AllocationPrivacyEngine()
    refused(message, lambda: private(engine=engine, **options), error)
    assert len(engine.accountant) == 0


def test_optimizers_must_fit() -> None:
    model = network()
    lbfgs = torch.optim.LBFGS(model.parameters())
    refused("one gradient a step, got an LBFGS", lambda: private(module=model, optimizer=lbfgs))
    other = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    refused(
        "parameters of the module, and no others", lambda: private(module=model, optimizer=other)
    )


def test_a_loader_that_shuffles_is_refused_with_its_price() -> None:
    loader = DataLoader(data(), batch_size=10, shuffle=True)
    with pytest.raises(ValueError, match="must not shuffle") as error:
        private(data_loader=loader, noise_multiplier=2.0, target_delta=DELTA)
    said = str(error.value)
    assert "\n" not in said
    round = sa.ShuffledBatches(noise_multiplier=2.0, steps=6)
    least = sa.attained_epsilon(round, delta=DELTA).lower
    most = sa.epsilon(round, delta=DELTA, tolerance=0.01).upper
    assert f"epsilon of {least:.3g} to {most:.3g} an epoch at delta = 1e-05" in said
    # for those who said what they want
    _, _, _, dealt = private(data_loader=loader, sampling="allocation")
    assert type(dealt.batch_sampler) is AllocationSampler
    _, _, _, shuffled = private(data_loader=loader, sampling="shuffle")
    assert type(shuffled.batch_sampler) is ShuffledSampler
    with_a_sampler = DataLoader(data(), batch_sampler=[[1, 2], [3]])
    refused("no sampler of its own", lambda: private(data_loader=with_a_sampler))
    poisson = opacus.data_loader.DPDataLoader(data(), sample_rate=0.1)
    refused("no sampler of its own", lambda: private(data_loader=poisson))


def test_a_second_phase_with_what_the_first_returned() -> None:
    engine, model, optimizer, loader = private()
    epoch(model, optimizer, loader, steps=3)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        noise_multiplier=2.0,
        max_grad_norm=NORM,
    )
    epoch(model, optimizer, loader)
    expected = (
        sa.FourierAccountant()
        .compose(
            sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=6, released=3)
        )
        .compose(sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=2.0), steps=6))
    )
    assert engine.get_epsilon(DELTA) == expected.epsilon(delta=DELTA)
    refused("an engine accounts for one dataset", lambda: private(engine=engine))
    refused(
        "sampling must be that of the private loader",
        lambda: engine.make_private(
            module=model,
            optimizer=optimizer,
            data_loader=loader,
            noise_multiplier=2.0,
            max_grad_norm=NORM,
            sampling="shuffle",
        ),
    )


def test_opacus_own_loop_learns() -> None:
    """Only the import and the engine are others."""
    torch.manual_seed(1)
    model, dataset = network(), data(600)
    engine = AllocationPrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=2.0),
        data_loader=DataLoader(dataset, batch_size=60),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    for _ in range(6):
        for images, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
    with torch.no_grad():
        guesses = model(dataset.tensors[0]).argmax(dim=1)
    assert float((guesses == dataset.tensors[1]).float().mean()) > 0.85
    assert engine.get_epsilon(1e-5) == sa.epsilon(
        sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=10),
        delta=1e-5,
        rounds=6,
    )


@pytest.mark.parametrize("page", WITH_OPACUS, ids=pages.name_of)
def test_pages(page: Path) -> None:
    """Their blocks that need Opacus."""
    attempted, report = pages.run_python(page, "py")
    assert attempted >= 10
    assert report == ""


def test_the_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="the demonstration trains on scikit-learn's digits")
    from benchmarks.training import digits_samplings

    assert digits_samplings.main(["--seeds", "1", "--epochs", "3"]) == 0
    *_, poisson, allocation, shuffle, said = capsys.readouterr().out.splitlines()
    ends = {}
    for line in (poisson, allocation, shuffle):
        name, steps, accuracy, lower, _, upper = line.split()
        assert steps == "22"
        assert float(accuracy) > 0.8  # a guess is right in a tenth of the cases
        ends[name] = float(lower), float(upper)
    assert ends["allocation"][1] < ends["poisson"][1] < ends["shuffle"][0] / 2
    one = sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=22)
    assert ends["allocation"][1] == round(sa.epsilon(one, delta=1e-5, rounds=3).upper, 3)
    assert said.endswith(f"Poisson's number would have claimed {ends['poisson'][1]:.3f}")
    assert digits_samplings.main(["--noise-multiplier", "-1"]) == 2
    assert "noise_multiplier must be" in capsys.readouterr().err
