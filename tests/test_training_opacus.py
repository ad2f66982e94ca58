"""Training through Opacus, for real; skipped where PyTorch or Opacus is missing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the plug-in is for PyTorch (extra opacus)")
opacus = pytest.importorskip("opacus", reason="the plug-in is for Opacus (extra opacus)")

from opacus.accountants import create_accountant  # noqa: E402
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
    model = network()
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
        ({"schema": 7}, "schema must be an integer >= 1 and <= 1"),
        ({"history": [1]}, "history must hold objects"),
        ({"history": [{"round": {}, "rounds": 1, "steps": 1}]}, "round must be an object"),
        ({"more": 1}, "state_dict must have fields"),
    ],
)
def test_bad_states_change_nothing(change: Any, message: str) -> None:
    accountant = create_accountant("shuffle")
    accountant.step(round=sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=5))
    before = accountant.state_dict()
    with pytest.raises(ValueError, match=message) as error:
        accountant.load_state_dict({**before, **change})
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
    optimizer.signal_skip_step(do_skip=True)
    with pytest.raises(ValueError, match="a batch must not be split"):
        one_step(model, optimizer, next(passing))
    assert same(weights, parameters(model))
    assert len(engine.accountant) == 1


def test_gradients_that_are_not_finite() -> None:
    engine, model, optimizer, loader = private()
    images, labels = next(iter(loader))
    images[7, 0] = math.nan
    weights = parameters(model)
    with pytest.raises(ValueError, match="gradients must be finite, got nan in row 7"):
        one_step(model, optimizer, (images, labels))
    assert same(weights, parameters(model))
    assert len(engine.accountant) == 0
    assert engine.get_epsilon(DELTA) == 0.0


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
