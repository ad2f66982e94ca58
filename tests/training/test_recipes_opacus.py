"""The recipes of the page for other frameworks: what they sample is what they account for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from benchmarks.training.recipes import index_batches as index
from shuffle_accountant.training.sampling import UserBatches

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
    pytest.mark.filterwarnings("ignore::UserWarning:lightning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
DELTA = 1e-5
# Ten batches of one size, or the same deal twice: with 60 records less than once in 1000 runs.


def records() -> Any:
    for name in ("torch", "opacus"):
        pytest.importorskip(name, reason=f"{name} is not installed (extra opacus)")
    from benchmarks.training.recipes import records as module

    return module


def expected(epochs: int = 2) -> sa.Bracket:
    """Two epochs of ten steps each, of the accountant itself."""
    step = sa.GaussianMechanism(noise_multiplier=1.0)
    return sa.epsilon(sa.RandomAllocation(step, steps=10), delta=DELTA, rounds=epochs)


def require_dealt(taken: list[list[int]], shared: Any, epochs: int = 2) -> None:
    """Every epoch uses every record in one of ten steps, of sizes that vary, dealt anew."""
    assert len(taken) == 10 * epochs
    deals = [taken[start : start + 10] for start in range(0, len(taken), 10)]
    for deal in deals:
        surplus = Counter(one for batch in deal for one in batch)
        surplus.subtract(shared)
        # an empty batch is handed out as a placeholder, record 0
        assert all(surplus[one] == 0 for one in surplus if one)
        assert 0 <= surplus[0] <= deal.count([0])
        assert len({len(batch) for batch in deal}) > 1
    first, second = (sorted(map(sorted, deal)) for deal in deals[:2])
    assert first != second


def test_accumulation(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of at most four records make up the batches of the deal."""
    r = records()
    from benchmarks.training.recipes import accumulation
    from shuffle_accountant.training.opacus import AllocationSampler

    dealt: list[list[int]] = []
    deal = AllocationSampler.__iter__

    def noted(self: Any) -> Iterator[list[int]]:
        for batch in deal(self):
            dealt.append(list(batch))
            yield batch

    monkeypatch.setattr(AllocationSampler, "__iter__", noted)
    given = r.Records()
    engine = accumulation.train(given)
    assert engine.get_epsilon(DELTA) == expected()
    require_dealt(dealt, range(r.RECORDS))
    assert max(map(len, given.taken)) <= 4
    parts = [one for batch in given.taken for one in batch]
    assert parts == [one for batch in dealt for one in batch]
    r.report("accumulation", engine.get_epsilon(DELTA), 20)
    assert str(expected().ends()[1]) in capsys.readouterr().out


def test_two_processes(tmp_path: Path) -> None:
    """Each process deals its own half, and no other sampler comes between."""
    r = records()
    import torch

    if not torch.distributed.is_available():
        pytest.skip("this build of PyTorch has no processes to distribute over")
    from benchmarks.training.recipes import two_processes
    from shuffle_accountant.training.opacus import AllocationAccountant

    two_processes.run(str(tmp_path))
    for rank in range(2):
        held = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        require_dealt(held["taken"], range(rank, r.RECORDS, 2))
        accountant = AllocationAccountant()
        accountant.load_state_dict(held["accountant"])
        assert accountant.get_epsilon(DELTA) == expected()


def test_lightning(tmp_path: Path) -> None:
    """Also where a second run goes on from a checkpoint of the first."""
    pytest.importorskip("lightning", reason="Lightning is not installed")
    r = records()
    from benchmarks.training.recipes import lightning_module as recipe

    given = r.Records()
    module = recipe.PrivateModule(given)
    trainer = recipe.trainer(module, 2)
    trainer.fit(module)
    epsilons = trainer.callbacks[0].epsilons
    assert [len(epsilons), epsilons[-1]] == [2, expected()]
    assert module.engine.get_epsilon(DELTA) == expected()
    require_dealt(given.taken, range(r.RECORDS))
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    resumed = recipe.PrivateModule(r.Records())
    recipe.trainer(resumed, 3).fit(resumed, ckpt_path=tmp_path / "two.ckpt")
    assert len(resumed.engine.accountant) == 30
    assert resumed.engine.get_epsilon(DELTA) == expected(3)


def test_hugging_face(tmp_path: Path) -> None:
    """The Trainer's own sampler is not used."""
    pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate, not installed")
    r = records()
    from benchmarks.training.recipes import hugging_face

    given = r.Records()
    engine = hugging_face.train(given, str(tmp_path))
    assert engine.get_epsilon(DELTA) == expected()
    require_dealt(given.taken, range(r.RECORDS))
    folder = str(tmp_path / "checkpoint-20")
    resumed = hugging_face.train(r.Records(), str(tmp_path), folder, num_train_epochs=3)
    assert len(resumed.accountant) == 30
    assert resumed.get_epsilon(DELTA) == expected(3)


@pytest.mark.parametrize(
    "option",
    [
        {"max_grad_norm": 1.0},
        {"gradient_accumulation_steps": 2},
    ],
    ids=str,
)
def test_hugging_face_refused(tmp_path: Path, option: dict[str, Any]) -> None:
    """Options that change the gradients, or log what is not private."""
    pytest.importorskip("transformers", reason="Hugging Face's transformers is not installed")
    pytest.importorskip("accelerate", reason="the Trainer needs accelerate, not installed")
    r = records()
    from benchmarks.training.recipes import hugging_face

    with pytest.raises(ValueError, match=f"{next(iter(option))} of the TrainingArguments"):
        hugging_face.train(r.Records(), str(tmp_path), **option)
    from shuffle_accountant.training.opacus import AllocationPrivacyEngine, trainer_callback

    with pytest.raises(ValueError, match="resume_from must be a checkpoint"):
        trainer_callback(AllocationPrivacyEngine(), delta=DELTA, resume_from=tmp_path)
    with pytest.raises(TypeError, match="engine must be"):
        trainer_callback(None, delta=DELTA)


@pytest.mark.parametrize(
    "option", [{"gradient_clip_val": 1.0}, {"accumulate_grad_batches": 2}], ids=str
)
def test_lightning_refused(option: dict[str, Any]) -> None:
    """Options that change the gradients."""
    pytest.importorskip("lightning", reason="Lightning is not installed")
    r = records()
    from benchmarks.training.recipes import lightning_module as recipe

    module = recipe.PrivateModule(r.Records())
    with pytest.raises(ValueError, match=f"{next(iter(option))} of the Trainer"):
        recipe.trainer(module, 1, **option).fit(module)


@pytest.mark.parametrize("name", index.FRAMEWORKS)
def test_index_batches(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The same gradients in every framework, and the rounds that are accounted for."""
    if name != "numpy":
        pytest.importorskip(name, reason=f"{name} is not installed")
    gradients = index.FRAMEWORKS[name]()
    features, labels = index.records()
    weights = np.random.default_rng(1).standard_normal((index.FEATURES, index.CLASSES))
    found = np.asarray(gradients(weights, features[:9], labels[:9])).reshape(9, -1)
    own = index.per_user_gradients(weights, features[:9], labels[:9])
    np.testing.assert_allclose(found, own, atol=1e-5)  # 32-bit floats
    index.main(name)
    shuffled, central = capsys.readouterr().out.splitlines()
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=2.0), users=250, population=1_000)
    lower, upper = sa.epsilon(one, delta=DELTA, rounds=8).ends()
    assert shuffled == f"{name}, shuffled messages: 8 steps, epsilon {lower} to {upper}"
    lower, upper = expected().ends()
    assert central == f"{name}, DP-SGD: 20 steps, epsilon {lower} to {upper}"


def test_index_batches_are_drawn_as_accounted_for() -> None:
    """Fixed samples for shuffled messages; a deal for DP-SGD."""
    drawn: list[list[int]] = []

    class Noted(UserBatches):
        def __iter__(self) -> Iterator[list[int]]:
            for users in super().__iter__():
                drawn.append(users)
                yield users

    ledger = index.train(
        index.per_user_gradients, Noted(population=1_000, users=250, sampling="fixed")
    )
    assert len(ledger) == len(drawn) == 8
    assert all(len(set(users)) == 250 for users in drawn)
    assert len(set(drawn[0]) & set(drawn[1])) > 0  # drawn anew, not what the first has left
    _, dealt = index.dp_sgd(index.per_user_gradients, noise_multiplier=1.0, steps=10, epochs=2)
    first, second = dealt
    assert len(first) == len(second) == 1_000
    assert set(first) == set(range(10))
    assert not np.array_equal(first, second)
