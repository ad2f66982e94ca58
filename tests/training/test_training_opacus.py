"""Training through Opacus, for real; skipped where PyTorch or Opacus is missing."""

from __future__ import annotations

import copy
import json
import math
from collections import UserDict, namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the plug-in is for PyTorch (extra opacus)")
opacus = pytest.importorskip("opacus", reason="the plug-in is for Opacus (extra opacus)")

from opacus.accountants import create_accountant  # noqa: E402
from opacus.utils.batch_memory_manager import BatchMemoryManager  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

import shuffle_accountant as sa  # noqa: E402
from shuffle_accountant.registry import sealed  # noqa: E402
from shuffle_accountant.training import (  # noqa: E402
    BudgetExceeded,
    DuchiL2,
    DuchiLInf,
    PrivUnit,
    SampledCoordinates,
    clip,
    private_mean,
)
from shuffle_accountant.training.opacus import (  # noqa: E402
    ShuffleAccountant,
    ShufflePrivacyEngine,
)

pytestmark = pytest.mark.filterwarnings("ignore:Full backward hook is firing")

USERS, FEATURES, DELTA = 120, 5, 1e-4
EPS0 = 3.0
# Means of 32-bit floats, of numbers of the order of ten.
SINGLE = 1e-4


def data(users: int = USERS) -> Any:
    rng = np.random.default_rng(0)
    images = rng.standard_normal((users, FEATURES)).astype(np.float32)
    return TensorDataset(torch.from_numpy(images), torch.from_numpy((images[:, 0] > 0).astype(int)))


def network() -> Any:
    return nn.Sequential(nn.Linear(FEATURES, 4), nn.Tanh(), nn.Linear(4, 2))


def private(batch: int = 40, seed: int = 1, engine: Any = None, **options: Any) -> Any:
    torch.manual_seed(seed)
    engine = engine or ShufflePrivacyEngine(rng=np.random.default_rng(seed))
    model = options.pop("module", None) or network()
    loader = options.pop("data_loader", None)
    if loader is None:
        loader = DataLoader(data(), batch_size=batch, shuffle=True)
    arguments = {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.5),
        "data_loader": loader,
        "max_grad_norm": 1.0,
        **options,
    }
    if "target_epsilon" in options:
        return engine, *engine.make_private_with_epsilon(**arguments)
    return engine, *engine.make_private(**{"eps0": EPS0, **arguments})


def one_step(model: Any, optimizer: Any, batch: Any) -> None:
    images, labels = batch
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(images), labels).backward()
    optimizer.step()


def one_pass(model: Any, optimizer: Any, loader: Any) -> int:
    steps = 0
    for batch in loader:
        one_step(model, optimizer, batch)
        steps += 1
    return steps


def passes_until_refused(model: Any, optimizer: Any, loader: Any) -> int:
    steps = 0
    while True:
        for batch in loader:
            try:
                one_step(model, optimizer, batch)
            except BudgetExceeded:
                return steps
            steps += 1


def parameters(model: Any) -> Any:
    return [p.detach().clone() for p in model.parameters()]


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# Tensors


@pytest.mark.parametrize("kind", [PrivUnit, DuchiL2, DuchiLInf, SampledCoordinates])
def test_tensors_go_in_and_come_out(kind: Any) -> None:
    randomizer = kind(dimension=20, eps0=2.0)
    rows = np.full((30, 20), 0.1)
    for precision in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        tensor = torch.from_numpy(rows).to(precision).requires_grad_()
        messages = randomizer.randomize(tensor, np.random.default_rng(3))
        assert isinstance(messages, torch.Tensor)
        assert messages.dtype == precision
        assert not messages.requires_grad
        assert messages.device == tensor.device
        if precision in (torch.float32, torch.float64):
            array = randomizer.randomize(tensor.detach().numpy(), np.random.default_rng(3))
            assert np.array_equal(messages.numpy(), array)
    with pytest.raises(ValueError, match="vectors must be finite, got nan in row 0"):
        randomizer.randomize(torch.full((1, 20), math.nan), np.random.default_rng(3))


def test_means_and_clipping_of_tensors() -> None:
    rows = torch.randn(10, 6, generator=torch.Generator().manual_seed(1))
    assert torch.linalg.vector_norm(clip(rows, 0.5), dim=1).max() <= 0.5 * (1 + 1e-6)
    randomizer = PrivUnit(dimension=6, eps0=2.0)
    mean = private_mean(rows, randomizer, rng=np.random.default_rng(1))
    array = private_mean(rows.numpy(), randomizer, rng=np.random.default_rng(1))
    assert np.array_equal(mean.numpy(), array)


# The accountant


def test_the_accountant_is_registered() -> None:
    accountant = create_accountant("shuffle")
    assert isinstance(accountant, ShuffleAccountant)
    assert accountant.mechanism() == "shuffle"
    assert len(accountant) == 0
    assert accountant.get_epsilon(DELTA) == 0.0
    assert accountant.get_epsilon(delta=DELTA).lower == 0.0


def test_it_counts_steps_and_rounds() -> None:
    accountant = create_accountant("shuffle")
    first = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=50)
    second = sa.ShuffleRound(PrivUnit(dimension=3, eps0=2.0), users=50, population=500)
    for _ in range(3):
        accountant.step(round=first)
        accountant.step(round=first, begins_round=False)
    accountant.step(round=second)
    assert len(accountant) == 7
    composed = sa.FourierAccountant().compose(first, count=3).compose(second)
    assert accountant.get_epsilon(DELTA) == composed.epsilon(delta=DELTA)
    assert accountant.get_delta(0.5) == composed.delta(epsilon=0.5)

    state = json.loads(json.dumps(accountant.state_dict()))
    resumed = create_accountant("shuffle")
    resumed.load_state_dict(state)
    assert resumed.history == accountant.history
    assert len(resumed) == 7
    assert resumed.get_epsilon(DELTA) == accountant.get_epsilon(DELTA)
    into: dict[str, Any] = {"mine": 1}
    assert accountant.state_dict(into) is into
    assert into["mine"] == 1

    more = sa.FourierAccountant().compose(first, count=3).compose(second, count=2)
    limit = float(more.epsilon(delta=DELTA))
    assert not accountant.would_exceed(second, epsilon=limit, delta=DELTA)
    assert accountant.would_exceed(second, epsilon=math.nextafter(limit, 0.0), delta=DELTA)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": "rdp"}, "mechanism must be 'shuffle', got 'rdp'"),
        ({"schema": 7}, "schema must be an integer >= 1 and <= 2"),
        ({"history": [1]}, "history must hold objects"),
        ({"history": [{"round": {}, "rounds": 1, "steps": 1}]}, "round must be an object"),
        ({"more": 1}, "state of schema 2 must have fields"),
    ],
)
def test_bad_states_change_nothing(change: Any, message: str) -> None:
    accountant = create_accountant("shuffle")
    accountant.step(round=sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=5))
    before = accountant.state_dict()
    changed = {name: held for name, held in before.items() if name != "digest"} | change
    with pytest.raises(ValueError, match=message) as error:
        accountant.load_state_dict(sealed(changed))
    assert "\n" not in str(error.value)
    assert accountant.state_dict() == before


def test_gaussian_noise_is_refused() -> None:
    accountant = create_accountant("shuffle")
    with pytest.raises(ValueError, match="use ShufflePrivacyEngine"):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(ValueError, match="begins_round must be True"):
        accountant.step(
            round=sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=5), begins_round=False
        )
    with pytest.raises(TypeError, match="round must be a ShuffleRound"):
        accountant.step()
    with pytest.warns(UserWarning, match="Secure RNG"):
        engine = opacus.PrivacyEngine(accountant="shuffle")
    model = nn.Linear(FEATURES, 2)
    with pytest.raises(ValueError, match="use ShufflePrivacyEngine"):
        engine.make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=DataLoader(data(), batch_size=10),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )
    assert len(accountant) == 0


# The engine


@pytest.mark.parametrize("sampling", ["fixed", "epoch"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_is_the_private_mean(sampling: str, reduction: str) -> None:
    """One backward pass per sample, then `private_mean` with the same generator."""
    engine, model, optimizer, loader = private(sampling=sampling, loss_reduction=reduction)
    plain = network()
    plain.load_state_dict(model._module.state_dict())
    images, labels = next(iter(loader))
    rows = []
    for i in range(len(images)):
        plain.zero_grad()
        nn.functional.cross_entropy(plain(images[i : i + 1]), labels[i : i + 1]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in plain.parameters()]))
    rng = np.random.default_rng()
    rng.bit_generator.state = engine._rng.bit_generator.state
    expected = private_mean(torch.stack(rows), engine.randomizer, max_norm=1.0, rng=rng)
    before = torch.cat([p.flatten() for p in parameters(model)])
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels, reduction=reduction)
    loss.backward()
    optimizer.step()
    after = torch.cat([p.flatten() for p in parameters(model)])
    scale = 0.5 * (len(images) if reduction == "sum" else 1)
    assert torch.allclose(before - after, scale * expected, atol=SINGLE * scale)
    assert len(engine.accountant) == 1


def test_fixed_batches_are_accounted_for() -> None:
    engine, model, optimizer, loader = private()
    one = sa.ShuffleRound(sa.GeneralRandomizer(EPS0), users=40, population=USERS)
    assert engine.get_epsilon(DELTA) == 0.0
    for passes in (1, 2):
        assert one_pass(model, optimizer, loader) == len(loader) == 3
        assert len(engine.accountant) == 3 * passes
        assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=3 * passes)
        assert engine.get_epsilon(DELTA).upper >= engine.get_epsilon(DELTA).lower > 0.0


def test_an_epoch_is_accounted_for_once() -> None:
    engine, model, optimizer, loader = private(batch=50, sampling="epoch")
    one = sa.ShuffleRound(sa.GeneralRandomizer(EPS0), users=60)  # 120 users in two batches
    for passes in (1, 2, 3):
        assert one_pass(model, optimizer, loader) == 2
        assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=passes)
    assert len(engine.accountant) == 6
    # a pass that is broken off counts, and so do two at a time
    one_step(model, optimizer, next(iter(loader)))
    assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=4)
    for batches in zip(loader, loader, strict=True):
        for batch in batches[1:]:
            one_step(model, optimizer, batch)
    left, right = iter(loader), iter(loader)
    for several in (left, right, left, right):
        one_step(model, optimizer, next(several))
    assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=7)
    assert len(engine.accountant) == 13


@pytest.mark.parametrize("sampling", ["fixed", "epoch"])
def test_calibration_meets_the_target_and_the_budget_holds(sampling: str) -> None:
    engine, model, optimizer, loader = private(
        target_epsilon=2.0, target_delta=DELTA, epochs=4, sampling=sampling
    )
    rounds = 12 if sampling == "fixed" else 4
    population = USERS if sampling == "fixed" else None
    eps0 = sa.max_eps0(
        users=40, population=population, rounds=rounds, target_epsilon=2.0, delta=DELTA
    )
    assert engine.randomizer == PrivUnit(dimension=34, eps0=float(eps0))
    assert passes_until_refused(model, optimizer, loader) == 12
    assert engine.would_exceed(epsilon=2.0, delta=DELTA)
    assert 1.9 < engine.get_epsilon(DELTA) <= 2.0
    weights, spent = parameters(model), engine.accountant.state_dict()
    with pytest.raises(BudgetExceeded, match="step 13 would exceed epsilon = 2") as error:
        one_step(model, optimizer, next(iter(loader)))
    assert "\n" not in str(error.value)
    assert same(weights, parameters(model))
    assert engine.accountant.state_dict() == spent
    with pytest.raises(ValueError, match="needs an engine without steps, got one with 12"):
        private(engine=engine, target_epsilon=2.0, target_delta=DELTA, epochs=4, data_loader=loader)


def test_training_improves_on_the_untrained_model() -> None:
    users = 2000
    loader = DataLoader(data(users), batch_size=500, shuffle=True)
    engine, model, optimizer, loader = private(
        data_loader=loader, eps0=4.0, max_epsilon=20.0, target_delta=DELTA
    )
    images, labels = loader.dataset.tensors

    def accuracy() -> float:
        with torch.no_grad():
            return float((model(images).argmax(dim=1) == labels).float().mean())

    untrained = accuracy()
    for _ in range(8):
        one_pass(model, optimizer, loader)
    assert accuracy() > max(0.8, untrained + 0.1)
    one = sa.ShuffleRound(sa.GeneralRandomizer(4.0), users=500, population=users)
    assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=32) <= 20.0


def test_a_checkpoint_resumes(tmp_path: Path) -> None:
    engine, model, optimizer, loader = private(sampling="epoch")
    one_pass(model, optimizer, loader)
    one_step(model, optimizer, next(iter(loader)))
    path = tmp_path / "checkpoint.pt"
    engine.save_checkpoint(path=path, module=model, optimizer=optimizer)
    other, again, its_optimizer, its_loader = private(seed=2, sampling="epoch")
    assert not same(parameters(model), parameters(again))
    other.load_checkpoint(path=path, module=again, optimizer=its_optimizer)
    assert same(parameters(model), parameters(again))
    assert len(other.accountant) == 4
    assert other.get_epsilon(DELTA) == engine.get_epsilon(DELTA)
    one_pass(again, its_optimizer, its_loader)  # what is left of an epoch is a new one
    one = sa.ShuffleRound(sa.GeneralRandomizer(EPS0), users=40)
    assert other.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=3)


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.Philox])
def test_a_resumed_run_does_not_repeat_its_noise(
    kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, states, randomized_sum = tmp_path / "checkpoint.pt", [], PrivUnit.randomized_sum

    def taken_down(self: Any, take: Any, batch: int, norm: float, rng: Any) -> Any:
        states.append(repr(rng.bit_generator.state))
        return randomized_sum(self, take, batch, norm, rng)

    monkeypatch.setattr(PrivUnit, "randomized_sum", taken_down)

    def run(resume: bool, early: bool = False) -> list[Any]:
        engine = ShufflePrivacyEngine(rng=np.random.Generator(kind(7)))
        if early:  # before or after anything is made private
            engine.load_checkpoint(path=path, module=PrefixedNetwork())
        engine, model, optimizer, loader = private(engine=engine)
        if resume:
            engine.load_checkpoint(path=path, module=model)
        drawn = []
        for batch in loader:
            drawn.append(batch[0].numpy().copy())
            one_step(model, optimizer, batch)
        if not resume and not early:
            engine.save_checkpoint(path=path, module=model)
        return drawn

    first = run(resume=False)
    again = [run(resume=True), run(resume=True), run(resume=False, early=True)]
    assert len(set(states)) == len(states) == 12
    for other in again:  # and users are drawn anew
        assert not any(np.array_equal(a, b) for a in first for b in other)


class PrefixedNetwork(nn.Module):
    """Takes the parameters that a private `network` has."""

    def __init__(self) -> None:
        super().__init__()
        self._module = network()


def test_an_epoch_that_is_under_way_is_a_new_one_after_a_checkpoint(tmp_path: Path) -> None:
    engine, model, optimizer, loader = private(sampling="epoch")
    one_pass(model, optimizer, loader)
    path = tmp_path / "checkpoint.pt"
    engine.save_checkpoint(path=path, module=model)
    batches = iter(loader)
    one_step(model, optimizer, next(batches))
    engine.load_checkpoint(path=path, module=model)
    one_step(model, optimizer, next(batches))
    one = sa.ShuffleRound(sa.GeneralRandomizer(EPS0), users=40)
    assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=2)


def test_a_checkpoint_of_another_configuration(tmp_path: Path) -> None:
    engine, model, optimizer, loader = private()
    one_pass(model, optimizer, loader)
    path = tmp_path / "checkpoint.pt"
    engine.save_checkpoint(path=path, module=model)
    other, again, _, _ = private(seed=2, eps0=1.0)
    before = parameters(again)
    with pytest.raises(ValueError, match="checkpoint is of another configuration") as error:
        other.load_checkpoint(path=path, module=again)
    assert "\n" not in str(error.value)
    assert same(before, parameters(again))
    assert len(other.accountant) == 0
    torch.save({"module_state_dict": {}}, path)
    with pytest.raises(ValueError, match="privacy_accountant_state_dict"):
        other.load_checkpoint(path=path, module=again)


def test_steps_that_no_theorem_covers() -> None:
    engine, model, optimizer, loader = private()
    batch = next(iter(loader))
    one_step(model, optimizer, batch)
    weights = parameters(model)
    with pytest.raises(ValueError, match="a step must use a new batch"):
        one_step(model, optimizer, batch)  # the same users again
    optimizer.zero_grad()
    passing = iter(loader)
    images, labels = next(passing)
    with pytest.raises(ValueError, match="the whole batch of 40 users, got 39"):
        one_step(model, optimizer, (images[:39], labels[:39]))
    optimizer.zero_grad()
    next(passing)  # a batch may be left out
    assert same(weights, parameters(model))
    assert len(engine.accountant) == 1


# What a step's gradients come from


def refused(match: str, model: Any, optimizer: Any, batch: Any) -> None:
    weights = parameters(model)
    with pytest.raises(ValueError, match=match) as error:
        one_step(model, optimizer, batch)
    assert "\n" not in str(error.value)
    assert same(weights, parameters(model))
    assert all(p.grad is None for p in model.parameters())  # they are not private


@pytest.mark.parametrize("sampling", ["fixed", "epoch"])
def test_a_kept_batch_is_not_a_fresh_draw(sampling: str) -> None:
    engine, model, optimizer, loader = private(sampling=sampling)
    kept = next(iter(loader))
    one_step(model, optimizer, kept)
    spent = engine.accountant.state_dict()
    for fresh in loader:
        refused("a new batch of the private loader, got one that", model, optimizer, kept)
        images, labels = kept
        for again in (images.clone(), images.double().float(), 2 * images, copy.deepcopy(images)):
            refused("a new batch of the private loader, got one", model, optimizer, (again, labels))
        refused(
            "one batch of the private loader, got several's", model, optimizer, (images, fresh[1])
        )
        refused(
            "one batch of the private loader, got several's", model, optimizer, (fresh[0], labels)
        )
        mixed = torch.cat([images[:20], fresh[0][:20]])
        refused("one batch of the private loader, got several's", model, optimizer, (mixed, labels))
        overwritten = fresh[0].clone()
        overwritten[:] = images
        refused(
            "one batch of the private loader, got several's",
            model,
            optimizer,
            (overwritten, labels),
        )
    assert engine.accountant.state_dict() == spent
    for fresh in loader:  # nothing that was refused stands in the way
        one_step(model, optimizer, fresh)
    assert len(engine.accountant) == 4


def test_tensors_of_no_draw_are_refused() -> None:
    engine, model, optimizer, loader = private()
    images, labels = next(iter(loader))
    unknown = "PyTorch's operations did not make of one"
    refused(unknown, model, optimizer, (torch.from_numpy(images.numpy().copy()), labels.long() * 0))
    plain_labels = torch.from_numpy(labels.numpy().copy())
    refused(unknown, model, optimizer, (torch.randn(40, FEATURES), plain_labels))
    _, _, _, foreign = private(seed=5)
    refused(unknown, model, optimizer, next(iter(foreign)))
    assert len(engine.accountant) == 0
    one_step(model, optimizer, (images, plain_labels))
    assert len(engine.accountant) == 1


def test_what_a_loop_does_with_a_batch() -> None:
    """Other precisions, augmentation, evaluation in between, a look ahead: all is one draw."""
    engine, model, optimizer, loader = private()
    batches = iter(loader)
    ahead = next(batches)
    losses = torch.zeros(())
    for step in range(3):
        (images, labels), ahead = ahead, next(batches, None)
        images = torch.flip((images.double() - images.mean()) / images.std(), dims=(0,)).float()
        images = images.to("cpu", copy=True).contiguous().requires_grad_(step == 1)
        with torch.no_grad():
            model(torch.randn(7, FEATURES))
        model.eval()
        model(torch.randn(7, FEATURES)).sum().item()
        model.train()
        loss = nn.functional.cross_entropy(model(images), torch.flip(labels, dims=(0,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses = losses + loss.detach()
    assert ahead is None
    assert math.isfinite(float(losses))
    assert f"{loss:.3f}" == f"{loss.item():.3f}"
    one = sa.ShuffleRound(sa.GeneralRandomizer(EPS0), users=40, population=USERS)
    assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=3)
    # a batch that was abandoned after its backward pass is no part of the next step
    images, labels = next(iter(loader))
    nn.functional.cross_entropy(model(images), labels).backward()
    one_step(model, optimizer, next(iter(loader)))
    assert len(engine.accountant) == 4
    averaged = copy.deepcopy(model)
    assert same(parameters(averaged), parameters(model))
    one_step(model, optimizer, next(iter(loader)))
    assert len(engine.accountant) == 5


Pair = namedtuple("Pair", ["images", "more"])


class Tokens(UserDict):  # type: ignore[type-arg]
    """As the batches of tokenizers are."""


class Structured(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = network()

    def forward(self, *, batch: Any) -> Any:
        assert all(type(tensor) is torch.Tensor for tensor in batch["pair"])
        assert type(batch["list"][0]) is torch.Tensor
        return {"scores": [self.inner(batch["pair"].images)]}


@pytest.mark.parametrize("kind", [dict, Tokens])
def test_batches_of_any_structure(kind: Any, tmp_path: Path) -> None:
    def collate(records: Any) -> Any:
        images = torch.stack([image for image, _ in records])
        labels = torch.as_tensor([label for _, label in records])
        return kind(pair=Pair(images, images[:, 0]), list=[labels, "text"], number=3)

    torch.manual_seed(1)
    engine, model = ShufflePrivacyEngine(), Structured()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        data_loader=DataLoader(data(), batch_size=40, collate_fn=collate),
        eps0=EPS0,
        max_grad_norm=1.0,
    )
    for batch in loader:
        assert type(batch) is kind
        assert batch["list"][1:] == ["text"]
        for fails in (False, True):
            optimizer.zero_grad()
            scores = model(batch=batch)["scores"][0]
            nn.functional.cross_entropy(scores, batch["list"][0]).backward()
            if fails:
                with pytest.raises(ValueError, match="a step must use a new batch"):
                    optimizer.step()
            else:
                optimizer.step()
    assert len(engine.accountant) == 3
    # what is saved are plain numbers
    torch.save(batch["pair"].images, tmp_path / "images.pt")
    saved = torch.load(tmp_path / "images.pt", weights_only=True)
    assert type(saved) is torch.Tensor
    assert saved.shape == (40, FEATURES)


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ew"])
def test_all_ways_to_compute_gradients(mode: str) -> None:
    engine, model, optimizer, loader = private(grad_sample_mode=mode)
    kept = next(iter(loader))
    one_step(model, optimizer, kept)
    refused("a step must use a new batch", model, optimizer, kept)
    assert one_pass(model, optimizer, loader) == 3
    assert len(engine.accountant) == 4


# Batches in parts


@pytest.mark.parametrize("sampling", ["fixed", "epoch"])
@pytest.mark.parametrize("most", [1, 7, 40, 1000])
def test_a_batch_may_come_in_parts(most: int, sampling: str) -> None:
    """A randomizer that changes nothing shows whose messages are in the mean."""
    engine, model, optimizer, loader = private(sampling=sampling, randomizer=Unchanged)
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=most, optimizer=optimizer
    ) as split:
        whole: list[Any] = []
        before = flat(model)
        for images, labels in split:
            assert len(images) <= most
            whole.append((images, labels))
            expected = clipped_mean(model, *map(torch.cat, zip(*whole, strict=True)))
            made = len(engine.accountant)
            one_step(model, optimizer, (images, labels))
            if len(engine.accountant) > made:
                assert torch.allclose(before - flat(model), 0.5 * expected, atol=SINGLE)
                before, whole = flat(model), []
        assert whole == []
    one = sa.ShuffleRound(
        sa.GeneralRandomizer(EPS0), users=40, population=USERS if sampling == "fixed" else None
    )
    rounds = 3 if sampling == "fixed" else 1
    assert engine.get_epsilon(DELTA) == sa.epsilon(one, delta=DELTA, rounds=rounds)


def test_parts_of_a_batch_that_was_broken_off() -> None:
    engine, model, optimizer, loader = private(randomizer=Unchanged)
    manager = BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=15, optimizer=optimizer
    )
    with manager as split:
        one_step(model, optimizer, next(iter(split)))
        assert len(engine.accountant) == 0
        assert all(p.grad is None for p in model.parameters())  # no sum, not even of messages
        before, parts = flat(model), []
        for batch in split:
            parts.append(batch)
            expected = clipped_mean(model, *map(torch.cat, zip(*parts, strict=True)))
            one_step(model, optimizer, batch)
            if len(parts) == 3:
                break
        assert torch.allclose(before - flat(model), 0.5 * expected, atol=SINGLE)
        assert len(engine.accountant) == 1
        refused("a step must use a new batch", model, optimizer, parts[0])
        parts = iter(split)
        one_step(model, optimizer, next(parts))
        next(parts)  # left out, and Opacus' queue of parts is one behind from here on
        one_step(model, optimizer, next(parts))
        refused("got parts of two", model, optimizer, next(parts))
        assert one_pass(model, optimizer, split) == 9
    assert len(engine.accountant) == 4


def test_a_part_that_is_refused_keeps_its_place() -> None:
    engine, model, optimizer, loader = private()
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=15, optimizer=optimizer
    ) as split:
        parts = iter(split)
        images, labels = next(parts)
        foreign = torch.from_numpy(images.numpy().copy()), torch.from_numpy(labels.numpy().copy())
        refused("operations did not make of one", model, optimizer, foreign)
        one_step(model, optimizer, next(parts))
        refused("the whole batch of 40 users, got 26", model, optimizer, next(parts))
        for part in parts:  # the other two batches
            one_step(model, optimizer, part)
    assert len(engine.accountant) == 2


def test_parts_need_the_main_process() -> None:
    loader = DataLoader(data(), batch_size=40, num_workers=1)
    _, model, optimizer, loader = private(data_loader=loader)
    with BatchMemoryManager(
        data_loader=loader, max_physical_batch_size=20, optimizer=optimizer
    ) as split:
        batches = iter(split)
        refused("parts of a batch need num_workers=0", model, optimizer, next(batches))


class Unchanged(PrivUnit):
    """Sends the vector itself: no randomizer, but it shows what is averaged."""

    def _fill(self, rows: Any, norms: Any, messages: Any, rng: Any) -> None:
        messages[:] = rows


def flat(model: Any) -> Any:
    return torch.cat([p.flatten() for p in parameters(model)])


def clipped_mean(model: Any, images: Any, labels: Any) -> Any:
    plain = network()
    plain.load_state_dict(model._module.state_dict())
    rows = []
    for i in range(len(images)):
        plain.zero_grad()
        nn.functional.cross_entropy(plain(images[i : i + 1]), labels[i : i + 1]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in plain.parameters()]))
    return clip(torch.stack(rows), 1.0).mean(dim=0)


# Loops that are no private ones


def test_modes_that_leave_no_gradient_to_randomize() -> None:
    for mode in ("ghost", "ghost_fsdp", "no_op", "other"):
        with pytest.raises(ValueError, match="grad_sample_mode must be one of 'hooks'") as error:
            private(grad_sample_mode=mode)
        assert "\n" not in str(error.value)


def test_optimizers_that_are_none() -> None:
    model = network()
    several = [torch.optim.SGD(model.parameters(), lr=0.1)]
    with pytest.raises(TypeError, match="optimizer must be an Optimizer, got"):
        private(module=model, optimizer=several)
    with pytest.raises(ValueError, match="must ask for one gradient a step, got an LBFGS"):
        private(module=model, optimizer=torch.optim.LBFGS(model.parameters()))


def test_parameters_that_are_frozen_and_evaluation_mode() -> None:
    engine, model, optimizer, loader = private()
    batches = iter(loader)
    batch = next(batches)
    model.eval()
    refused_anywhere("in training mode", model, optimizer, batch)
    model.train()
    frozen = next(model.parameters())
    frozen.requires_grad_(False)
    refused_anywhere("must keep the 4 trainable parameters", model, optimizer, batch)
    frozen.requires_grad_(True)
    optimizer.zero_grad()
    with pytest.raises(ValueError, match="through all trainable parameters"):
        optimizer.step()
    one_step(model, optimizer, next(batches))
    assert len(engine.accountant) == 1


def refused_anywhere(match: str, model: Any, optimizer: Any, batch: Any) -> None:
    weights = parameters(model)
    with pytest.raises(ValueError, match=match) as error:
        one_step(model, optimizer, batch)
    assert "\n" not in str(error.value)
    assert same(weights, parameters(model))


# Nothing tells of single users


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.filterwarnings("error")
def test_a_gradient_that_is_not_finite_counts_as_zero(value: float) -> None:
    """The same messages, with the same generator, as if that user's gradient were zero."""
    engine, model, optimizer, loader = private()
    plain = network()
    plain.load_state_dict(model._module.state_dict())
    images, labels = next(iter(loader))
    images[7, 0] = value
    rows = []
    for i in range(len(images)):
        plain.zero_grad()
        nn.functional.cross_entropy(plain(images[i : i + 1]), labels[i : i + 1]).backward()
        rows.append(torch.cat([p.grad.flatten() for p in plain.parameters()]))
    assert not torch.isfinite(rows[7]).all()
    rows[7] = torch.zeros_like(rows[7])
    rng = np.random.default_rng()
    rng.bit_generator.state = engine._rng.bit_generator.state
    expected = private_mean(torch.stack(rows), engine.randomizer, max_norm=1.0, rng=rng)
    before = torch.cat([p.flatten() for p in parameters(model)])
    one_step(model, optimizer, (images, labels))
    after = torch.cat([p.flatten() for p in parameters(model)])
    assert torch.allclose(before - after, 0.5 * expected, atol=SINGLE)
    assert len(engine.accountant) == 1


@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize("worst", [0.0, math.inf])
def test_a_scaled_loss_is_refused(unscale: bool, worst: float) -> None:
    """With and without an overflow, in the same way."""
    engine, model, optimizer, loader = private()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    images, labels = next(iter(loader))
    images[7, 0] += worst
    weights = parameters(model)
    scaler.scale(nn.functional.cross_entropy(model(images), labels)).backward()
    if unscale:
        scaler.unscale_(optimizer)
    with pytest.raises(ValueError, match="must be made without a GradScaler") as error:
        scaler.step(optimizer)
    assert "\n" not in str(error.value)
    assert same(weights, parameters(model))
    assert len(engine.accountant) == 0
    # one that is switched off scales nothing, and nothing is left of the other
    off = torch.amp.GradScaler("cpu", enabled=False)
    images, labels = next(iter(loader))
    off.scale(nn.functional.cross_entropy(model(images), labels)).backward()
    off.step(optimizer)
    off.update()
    assert not same(weights, parameters(model))
    assert len(engine.accountant) == 1


@pytest.fixture
def process_group() -> Any:
    if not torch.distributed.is_available():
        pytest.skip("this build of PyTorch has no processes to distribute over")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


class NeverAsked(Exception):
    """A calibration began although an argument is wrong."""


WRONG: list[dict[str, Any]] = [
    {"optimizer": "sgd"},
    {"optimizer": torch.optim.SGD(network().parameters(), lr=1.0)},
    {"optimizer": torch.optim.LBFGS(network().parameters())},
    {"max_grad_norm": -1.0},
    {"loss_reduction": "median"},
    {"randomizer": lambda **given: given},
    {"grad_sample_mode": "none"},
    {"sampling": "poisson"},
    {"epochs": 0},
    {"nonsense": 1},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: next(iter(wrong)))
def test_arguments_are_checked_before_eps0_is_worked_out(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(**given: Any) -> float:
        raise NeverAsked

    engine = "shuffle_accountant.training.opacus.messages"
    monkeypatch.setattr(f"{engine}.max_eps0", never)
    question = {"target_epsilon": 2.0, "target_delta": DELTA, "epochs": 2}
    with pytest.raises(NeverAsked):
        private(**question)
    with pytest.raises((TypeError, ValueError)) as error:
        private(**{**question, **wrong})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    "kind",
    [
        opacus.distributed.DifferentiallyPrivateDistributedDataParallel,
        nn.parallel.DistributedDataParallel,
    ],
)
def test_distributed_modules_are_refused(process_group: Any, kind: Any, inside: bool) -> None:
    engine = ShufflePrivacyEngine()
    model = kind(network())
    model = nn.Sequential(model) if inside else model
    before = dict(model.named_parameters())
    message = f"module must be on one process .*, got a {kind.__name__}$"
    for more in ({"eps0": EPS0}, {"target_epsilon": 2.0, "target_delta": DELTA, "epochs": 1}):
        make = engine.make_private if "eps0" in more else engine.make_private_with_epsilon
        with pytest.raises(ValueError, match=message) as error:
            make(
                module=model,
                optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
                data_loader=DataLoader(data(), batch_size=40),
                max_grad_norm=1.0,
                **more,
            )
        assert "\n" not in str(error.value)
    assert engine.round is None
    assert not any(hasattr(p, "grad_sample") for p in before.values())


class Stream(IterableDataset):  # type: ignore[misc, type-arg]
    def __iter__(self) -> Any:
        return iter(())


def loaders() -> Any:
    dataset = data()
    weights = torch.ones(USERS)
    yield DataLoader(dataset, 10, sampler=WeightedRandomSampler(weights, USERS)), "WeightedRandom"
    yield DataLoader(dataset, 10, sampler=SubsetRandomSampler(range(20))), "SubsetRandomSampler"
    yield DataLoader(dataset, 10, sampler=RandomSampler(dataset, replacement=True)), "replacement"
    yield DataLoader(dataset, 10, sampler=RandomSampler(dataset, num_samples=500)), "other length"
    yield DataLoader(dataset, batch_sampler=[[1, 2], [3]]), "list"
    yield DataLoader(dataset, batch_size=None), "batch_size=None"
    yield opacus.data_loader.DPDataLoader(dataset, sample_rate=0.1), "UniformWithReplacement"
    yield DataLoader(Stream(), batch_size=10), "an IterableDataset"
    yield DataLoader(dataset, batch_size=121), "at most the population of 120, got 121"


@pytest.mark.parametrize("index", range(9))
def test_samplers_that_no_theorem_covers(index: int) -> None:
    loader, message = list(loaders())[index]
    engine = ShufflePrivacyEngine()
    message = message.replace("other length", "another length")
    with pytest.raises(ValueError, match=message) as error:
        private(engine=engine, data_loader=loader)
    assert "\n" not in str(error.value)
    assert engine.round is None
    assert len(engine.accountant) == 0


def test_samplers_that_are_replaced() -> None:
    dataset = data()
    for loader in (
        DataLoader(dataset, batch_size=40),
        DataLoader(dataset, batch_size=40, shuffle=True, drop_last=True),
        DataLoader(dataset, batch_sampler=BatchSampler(SequentialSampler(dataset), 40, False)),
    ):
        _, _, _, ours = private(data_loader=loader)
        assert len(ours) == 3
    _, _, _, workers = private(data_loader=DataLoader(dataset, batch_size=60, num_workers=1))
    assert [len(labels) for _, labels in workers] == [60, 60]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"eps0": 0.0}, ValueError, "eps0 must be a finite number > 0, got 0.0"),
        ({"eps0": -1.0}, ValueError, "eps0 must be a finite number > 0, got -1.0"),
        ({"max_grad_norm": 0.0}, ValueError, "max_grad_norm must be a finite number > 0"),
        ({"sampling": "poisson"}, ValueError, "sampling must be one of 'fixed', 'epoch'"),
        ({"loss_reduction": "none"}, ValueError, "loss_reduction must be one of"),
        ({"randomizer": lambda **_: 1}, TypeError, "randomizer must be a VectorRandomizer"),
        ({"max_epsilon": 1.0}, TypeError, "target_delta must be"),
        ({"max_epsilon": -1.0, "target_delta": 0.1}, ValueError, "max_epsilon must be"),
        ({"target_epsilon": 0.0, "target_delta": 0.1, "epochs": 1}, ValueError, "target_epsilon"),
        ({"target_epsilon": 1.0, "target_delta": 1.0, "epochs": 1}, ValueError, "delta must be"),
        ({"target_epsilon": 1.0, "target_delta": 0.1, "epochs": 0}, ValueError, "epochs must be"),
    ],
)
def test_bad_arguments(options: Any, error: Any, message: str) -> None:
    engine = ShufflePrivacyEngine()
    with pytest.raises(error, match=message) as raised:
        private(engine=engine, **options)
    assert "\n" not in str(raised.value)
    assert engine.round is None
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match=r"delta must be a number in \(0, 1\)"):
            engine.get_epsilon(delta)
    with pytest.raises(ValueError, match="needs a call of make_private first"):
        engine.would_exceed(epsilon=1.0, delta=DELTA)


def test_optimizers_and_datasets_must_fit() -> None:
    engine, model, optimizer, loader = private()
    with pytest.raises(ValueError, match="an engine accounts for one dataset"):
        private(engine=engine)
    other = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="optimizer must have all trainable parameters"):
        private(optimizer=torch.optim.SGD(other.parameters(), lr=0.1))
    with pytest.raises(TypeError, match="rng must be a Generator"):
        ShufflePrivacyEngine(rng=1)  # type: ignore[arg-type]
    # a second phase with what the first returned, by another randomizer
    one_pass(model, optimizer, loader)
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        eps0=1.0,
        max_grad_norm=1.0,
        randomizer=SampledCoordinates,
    )
    one_pass(model, optimizer, loader)
    first = sa.ShuffleRound(sa.GeneralRandomizer(EPS0), users=40, population=USERS)
    second = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=40, population=USERS)
    composed = sa.FourierAccountant().compose(first, count=3).compose(second, count=3)
    assert engine.get_epsilon(DELTA) == pytest.approx(composed.epsilon(delta=DELTA), rel=1e-3)


def test_the_demonstration(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="the demonstration trains on scikit-learn's digits")
    from benchmarks.training import digits_opacus

    assert digits_opacus.main(["--seed", "1", "--epochs", "6", "--epsilon", "3"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[-1][:1] == ["stopped:"]
    assert [int(line[0]) for line in lines[1:-1]] == list(range(7))
    assert float(lines[1][2]) < 0.2
    assert float(lines[-2][2]) > 0.4  # a guess is right in a tenth of the cases
    assert float(lines[-2][-1]) <= 3.0
    assert digits_opacus.main(["--epsilon", "-1"]) == 2
    assert "target_epsilon must be" in capsys.readouterr().err
