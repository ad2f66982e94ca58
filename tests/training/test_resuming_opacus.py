"""Training that is resumed from the states of model and optimizer alone, as many loops do it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the plug-in is for PyTorch (extra opacus)")
opacus = pytest.importorskip("opacus", reason="the plug-in is for Opacus (extra opacus)")

from opacus.accountants import create_accountant  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

import shuffle_accountant as sa  # noqa: E402
from shuffle_accountant.training.opacus import (  # noqa: E402
    AllocationPrivacyEngine,
    ShufflePrivacyEngine,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Secure RNG turned off"),
]

DELTA = 1e-4
FORGOTTEN = (
    r"optimizer's state is that of a private run after 3 steps, which the engine's accountant"
)
ENGINES = {
    "allocation": (AllocationPrivacyEngine, {"noise_multiplier": 1.0}),
    "shuffle": (ShufflePrivacyEngine, {"eps0": 3.0}),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.1),  # which has no state but groups
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1),
}


class Run:
    """A training run: three steps in each epoch.

    Args:
        engine: which one.
        kind: of the optimizer.
        load: called with the run between making the optimizer and making it private.
    """

    def __init__(
        self, engine: str, kind: str = "SGD", load: Callable[[Run], None] = lambda run: None
    ) -> None:
        make, self.options = ENGINES[engine]
        self.engine = make()
        self.model: Any = nn.Linear(4, 2)
        self.plain = self.optimizer = OPTIMIZERS[kind](self.model.parameters())
        rows = torch.from_numpy(np.random.default_rng(1).standard_normal((30, 4)))
        self.loader = DataLoader(TensorDataset(rows.float(), (rows[:, 0] > 0).long()), 10)
        load(self)
        self.model, self.optimizer, self.loader = self.engine.make_private(
            module=self.model,
            optimizer=self.optimizer,
            data_loader=self.loader,
            max_grad_norm=1.0,
            **self.options,
        )

    def epoch(self) -> None:
        for rows, labels in self.loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(rows), labels).backward()
            self.optimizer.step()

    def steps(self) -> int:
        return len(self.engine.accountant)


@pytest.fixture(params=[(engine, kind) for engine in ENGINES for kind in OPTIMIZERS], ids=str)
def run(request: pytest.FixtureRequest) -> tuple[Any, Run, Any]:
    """An engine's name and an optimizer's, a run of them, and what was saved after an epoch."""
    first = Run(*request.param)
    first.epoch()
    saved = {"optimizer": first.optimizer.state_dict(), "model": first.model.state_dict()}
    return request.param, first, saved


def test_the_first_part_is_not_forgotten(run: tuple[Any, Run, Any]) -> None:
    names, first, saved = run
    accounting = json.loads(json.dumps(first.engine.accountant.state_dict()))

    def load_plain(other: Run) -> None:
        other.plain.load_state_dict(saved["optimizer"])

    with pytest.raises(ValueError, match=FORGOTTEN) as raised:
        Run(*names, load=load_plain)
    assert "\n" not in str(raised.value)

    after = Run(*names)
    before = after.optimizer.state_dict()
    with pytest.raises(ValueError, match=FORGOTTEN):
        after.optimizer.load_state_dict(saved["optimizer"])
    assert after.optimizer.state_dict() == before

    behind = Run(*names)  # the optimizer inside, which the engine does not see loading
    behind.plain.load_state_dict(saved["optimizer"])
    weights = [p.detach().clone() for p in behind.model.parameters()]
    with pytest.raises(ValueError, match=FORGOTTEN):
        behind.epoch()
    assert all(map(torch.equal, weights, behind.model.parameters()))
    assert behind.steps() == 0

    def load_all(other: Run) -> None:
        other.engine.accountant.load_state_dict(accounting)
        load_plain(other)

    first.epoch()
    resumed = [Run(*names, load=load_all), Run(*names), Run(*names)]
    for other in resumed[1:]:
        other.engine.accountant.load_state_dict(accounting)
    resumed[1].optimizer.load_state_dict(saved["optimizer"])
    resumed[2].plain.load_state_dict(saved["optimizer"])
    for other in resumed:
        other.epoch()
        assert other.steps() == 6
        assert other.engine.get_epsilon(DELTA) == first.engine.get_epsilon(DELTA)
        saved_again = other.optimizer.state_dict()
        assert saved_again["param_groups"][0]["privacy_receipt"].startswith("6:")


def test_what_an_accountant_has_is_loaded(run: tuple[Any, Run, Any], tmp_path: Path) -> None:
    names, first, saved = run
    first.epoch()
    first.optimizer.load_state_dict(saved["optimizer"])  # of an earlier epoch of the same run
    first.epoch()
    assert first.steps() == 9
    path = tmp_path / "checkpoint.pt"
    first.engine.save_checkpoint(path=path, module=first.model, optimizer=first.optimizer)
    other = Run(*names)
    other.engine.load_checkpoint(path=path, module=other.model, optimizer=other.optimizer)
    other.epoch()
    assert other.steps() == 12
    assert other.engine.accountant.receipt.digest == first.engine.accountant.receipt.digest
    # states of the first run go with its accounting, those of another run do not
    other.optimizer.load_state_dict(saved["optimizer"])
    with pytest.raises(ValueError, match=FORGOTTEN):
        Run(*names).optimizer.load_state_dict(saved["optimizer"])
    # of more steps than are recorded, too
    early = Run(*names)
    early.engine.accountant.load_state_dict(_without_steps(first))
    with pytest.raises(ValueError, match=FORGOTTEN):
        early.optimizer.load_state_dict(saved["optimizer"])


def _without_steps(run: Run) -> dict[str, Any]:
    """The state of a run's accountant before its first step."""
    empty = create_accountant(run.engine.accountant.mechanism())
    empty.run = run.engine.accountant.run
    state: dict[str, Any] = empty.state_dict()
    return state


def test_optimizers_without_private_steps_are_loaded(run: tuple[Any, Run, Any]) -> None:
    names, _, _ = run

    def load(other: Run) -> None:
        again = OPTIMIZERS[names[1]](other.model.parameters())
        other.plain.load_state_dict(again.state_dict())

    other = Run(*names, load=load)
    other.optimizer.load_state_dict(other.optimizer.state_dict())
    other.epoch()
    assert other.steps() == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_states_of_accountants_are_sealed(engine: str) -> None:
    first = Run(engine)
    first.epoch()
    spent = first.engine.get_epsilon(DELTA)
    content = json.dumps(first.engine.accountant.state_dict()).encode()
    for place in range(8 * len(content)):
        altered = bytearray(content)
        altered[place // 8] ^= 1 << place % 8
        other, said = create_accountant(engine), ""
        try:
            other.load_state_dict(json.loads(altered.decode()))
        except (ValueError, TypeError) as error:
            said = str(error)
        if said:
            assert len(said.splitlines()) == 1
            assert len(other) == 0
        else:
            assert other.history == first.engine.accountant.history, place
            assert other.receipt == first.engine.accountant.receipt
    assert first.engine.get_epsilon(DELTA) == spent


@pytest.mark.parametrize("engine", ENGINES)
def test_states_of_version_0_2_0_are_read_with_a_warning(engine: str) -> None:
    round = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=50).to_dict()
    history = {
        "shuffle": [{"round": round, "rounds": 3, "steps": 3}],
        "allocation": [
            {"sampling": "allocation", "noise_multiplier": 1.0, "steps": 6, "released": 3}
        ],
    }
    state = {"schema": 1, "mechanism": engine, "history": history[engine]}
    accountant = create_accountant(engine)
    with pytest.warns(UserWarning, match="a state of schema 1 has no digest"):
        accountant.load_state_dict(state)
    assert len(accountant) == 3
    assert accountant.state_dict()["schema"] == 2
