"""Flower: the mod and the strategies one by one, and whole simulations with real clients."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.training import PrivUnit, ShuffleLedger

pytest.importorskip("flwr", reason="Flower is not installed (extra 'flower')")

from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.supercore.task_identity import TaskIdentity

from shuffle_accountant.training.flower import (
    AllocationStrategy,
    LocalRandomizerMod,
    ShuffledStrategy,
)

DIMENSION = 12
DELTA = 1e-5
RARE = 1e-6  # of statistical tests; their seeds are the operating system's


@pytest.fixture(autouse=True)
def a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are made inside a task, of which each process has one."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


def model(value: float = 0.0) -> ArrayRecord:
    return ArrayRecord(
        {
            "w": Array(np.full((2, 5), value, dtype=np.float32)),
            "b": Array(np.full(2, value)),
            "batches": Array(np.array(7)),
        }
    )


def vector(arrays: Any) -> np.ndarray[Any, Any]:
    return np.concatenate([np.asarray(arrays[key].numpy(), float).ravel() for key in ("w", "b")])


def asked(node: int = 5, value: float = 0.0) -> Message:
    content = RecordDict({"arrays": model(value), "config": ConfigRecord({"lr": 0.1})})
    return Message(content=content, dst_node_id=node, message_type=MessageType.TRAIN)


def context() -> Context:
    return Context(run_id=1, node_id=5, node_config={}, state=RecordDict(), run_config={})


def trained(change: Callable[[Any], Any]) -> Callable[[Message, Context], Message]:
    def app(message: Message, _: Context) -> Message:
        arrays = {
            k: Array(np.asarray(change(v.numpy()))) for k, v in message.content["arrays"].items()
        }
        secret = MetricRecord({"num-examples": 123, "loss": 4.5})
        content = RecordDict({"model": ArrayRecord(arrays), "metrics": secret})
        return Message(content=content, reply_to=message)

    return app


def failing(message: Message, _: Context) -> Message:
    raise RuntimeError("a secret record")


def reporting(message: Message, _: Context) -> Message:
    return Message(Error(code=1, reason="a secret record"), reply_to=message)


NO_UPDATE = [
    failing,
    reporting,
    trained(lambda x: x * np.nan),
    trained(lambda x: x + np.inf),
    trained(lambda x: x[:1] if x.ndim else x),
    lambda message, _: Message(content=RecordDict({}), reply_to=message),
]


def test_the_mod_sends_the_randomized_update_and_nothing_else() -> None:
    mod = LocalRandomizerMod(PrivUnit(dimension=DIMENSION, eps0=40.0), max_norm=2.0, max_rounds=9)
    message = asked(value=1.0)
    # 40 nats are next to no noise: the direction comes through
    answers = [
        mod(message, context(), trained(lambda x: x + 1 if x.dtype.kind == "f" else x + 5))
        for _ in range(9)
    ]
    for answer in answers:
        assert list(answer.content) == ["arrays", "metrics"]
        assert dict(answer.content["metrics"]) == {"num-examples": 1}
        arrays = answer.content["arrays"]
        assert list(arrays) == ["w", "b", "batches"]
        assert arrays["batches"].numpy() == 7
        assert arrays["w"].numpy().dtype == np.float32
        update = vector(arrays) - 1.0
        direction = np.ones(DIMENSION) / np.sqrt(DIMENSION)
        assert update @ direction / np.linalg.norm(update) > 0.5
    sent = {vector(answer.content["arrays"]).tobytes() for answer in answers}
    assert len(sent) == 9  # fresh randomness every time


@pytest.mark.parametrize("app", NO_UPDATE)
def test_what_went_wrong_is_a_randomized_zero_vector(app: Any) -> None:
    randomizer = sa.GaussianVectors(noise_multiplier=3.0)
    mod = LocalRandomizerMod(randomizer, max_norm=2.0, max_rounds=10**6)
    state, sent = context(), []
    for _ in range(100):
        answer = mod(asked(), state, app)
        assert not answer.has_error()
        sent.append(vector(answer.content["arrays"]))
    noise = np.array(sent) / 6.0
    assert abs(noise.mean()) < 5.0 / np.sqrt(noise.size)  # 5 standard errors: RARE
    assert abs(noise.std() - 1.0) < 5.0 / np.sqrt(2.0 * noise.size)


def test_large_updates_are_clipped() -> None:
    randomizer = sa.GaussianVectors(noise_multiplier=1e-6)
    mod = LocalRandomizerMod(randomizer, max_norm=2.0, max_rounds=10)
    for factor in (1e-30, 0.1, 1e3, 1e30):
        answer = mod(
            asked(), context(), trained(lambda x, f=factor: x + x.dtype.type(f) if x.ndim else x)
        )
        norm = np.linalg.norm(vector(answer.content["arrays"]))
        exact = min(factor * np.sqrt(DIMENSION), 2.0)
        assert norm == pytest.approx(exact, abs=1e-4)  # 5 deviations of the noise and more


def test_a_client_counts_its_rounds_itself() -> None:
    mod = LocalRandomizerMod(PrivUnit(dimension=DIMENSION, eps0=2.0), max_norm=1.0, max_rounds=3)
    state = context()

    def meddling(message: Message, ctxt: Context) -> Message:
        ctxt.state["shuffle-accountant"] = ConfigRecord({"rounds": 0})
        raise RuntimeError

    for number in range(5):
        answer = mod(asked(), state, meddling)
        assert answer.has_error() == (number >= 3)
    assert "3 rounds at most" in answer.error.reason


def test_only_training_is_randomized_and_wrong_sizes_are_refused() -> None:
    mod = LocalRandomizerMod(PrivUnit(dimension=3, eps0=2.0), max_norm=1.0, max_rounds=3)
    answer = mod(asked(), context(), failing)
    assert answer.error.reason == ("LocalRandomizerMod: the model has 12 numbers, the randomizer 3")
    evaluate = Message(content=RecordDict({}), dst_node_id=1, message_type=MessageType.EVALUATE)
    assert mod(evaluate, context(), lambda message, _: "answered") == "answered"
    with pytest.raises(TypeError, match="randomizer must be a VectorRandomizer or GaussianVectors"):
        LocalRandomizerMod(sa.GeneralRandomizer(1.0), max_norm=1.0, max_rounds=1)  # type: ignore[arg-type]


class Nodes:
    """What strategies ask of a grid: who is there."""

    def __init__(self, number: int) -> None:
        self.ids = list(range(100, 100 + number))

    def get_node_ids(self) -> list[int]:
        return self.ids


def answers(messages: list[Message], change: Callable[[int], float]) -> list[Message]:
    found = []
    for message in messages:
        node = message.metadata.dst_node_id
        arrays = {
            k: Array(
                v.numpy() + v.numpy().dtype.type(change(node)) if v.numpy().ndim else v.numpy()
            )
            for k, v in message.content["arrays"].items()
        }
        content = RecordDict(
            {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 10**6})}
        )
        reply = Message(content=content, reply_to=message)
        reply.metadata._src_node_id = node
        found.append(reply)
    return found


def spent_ledger(users: int = 10, **options: Any) -> ShuffleLedger:
    return ShuffleLedger(PrivUnit(dimension=DIMENSION, eps0=2.0), users=users, **options)


def test_a_shuffled_round_takes_the_mean_and_steps_first() -> None:
    ledger = spent_ledger(target_delta=DELTA, max_epsilon=50.0)
    strategy = ShuffledStrategy(FedAvg(min_train_nodes=10), ledger=ledger, min_users=8)
    messages = list(strategy.configure_train(1, model(), ConfigRecord(), Nodes(10)))
    assert len(messages) == 10
    messages.sort(key=lambda message: message.metadata.dst_node_id)
    replies = answers(messages, lambda node: node - 100.0)
    arrays, metrics = strategy.aggregate_train(1, replies[:9] + replies[:3])  # doubles do not count
    np.testing.assert_allclose(vector(arrays), 4.0)
    assert arrays["batches"].numpy() == 7
    assert arrays["batches"].numpy().dtype.kind == "i"
    assert arrays["w"].numpy().dtype == np.float32
    one = sa.ShuffleRound(ledger.round.randomizer, users=9)
    assert metrics["epsilon"] == float(sa.epsilon(one, delta=DELTA))
    assert (metrics["users"], len(ledger)) == (9, 1)
    assert list(strategy.configure_evaluate(1, arrays, ConfigRecord(), Nodes(10))) == []
    assert strategy.aggregate_evaluate(1, []) is None


def test_too_few_replies_release_and_spend_nothing() -> None:
    ledger = spent_ledger()
    strategy = ShuffledStrategy(FedAvg(min_train_nodes=10), ledger=ledger, min_users=8)
    messages = list(strategy.configure_train(1, model(), ConfigRecord(), Nodes(10)))
    replies = answers(messages, lambda node: 1.0)
    assert strategy.aggregate_train(1, replies[:7]) == (None, None)
    assert strategy.aggregate_train(1, replies) == (None, None)  # the round is over
    assert len(ledger) == 0
    strangers = answers([asked(node=9), asked(node=8)], lambda node: 1.0)
    messages = list(strategy.configure_train(2, model(), ConfigRecord(), Nodes(10)))
    assert strategy.aggregate_train(2, [*answers(messages[:7], float), *strangers]) == (None, None)
    with pytest.raises(ValueError, match="strategy must ask at most 10 clients"):
        strategy.configure_train(3, model(), ConfigRecord(), Nodes(11))


def test_the_budget_ends_the_rounds() -> None:
    ledger = spent_ledger(target_delta=DELTA, max_epsilon=9.0)
    strategy = ShuffledStrategy(FedAvg(min_train_nodes=10), ledger=ledger, min_users=2)
    released = 0
    for number in range(1, 20):
        messages = list(strategy.configure_train(number, model(), ConfigRecord(), Nodes(10)))
        arrays, _ = strategy.aggregate_train(number, answers(messages, float))
        released += arrays is not None
    most = int(sa.max_rounds(round=ledger.round, target_epsilon=9.0, delta=DELTA))
    assert released == len(ledger) == most > 0
    assert ledger.epsilon() <= 9.0


def test_a_population_is_that_of_all_nodes() -> None:
    ledger = spent_ledger(population=20)
    strategy = ShuffledStrategy(FedAvg(fraction_train=0.5), ledger=ledger)
    assert list(strategy.configure_train(1, model(), ConfigRecord(), Nodes(21))) == []
    assert len(list(strategy.configure_train(2, model(), ConfigRecord(), Nodes(20)))) == 10


def test_an_epoch_asks_every_node_once_and_pays_when_it_begins() -> None:
    strategy = AllocationStrategy(
        FedAvg(), noise_multiplier=1e-9, max_norm=1e6, steps=4, users=30, delta=DELTA
    )
    nodes, seen, total = Nodes(30), [], np.zeros(DIMENSION)
    for number in range(1, 5):
        messages = list(strategy.configure_train(number, model(), ConfigRecord(), nodes))
        assert len(strategy.accountant) == 1
        nodes.ids = list(range(100, 150))  # newcomers wait
        seen += [message.metadata.dst_node_id for message in messages]
        arrays, _ = strategy.aggregate_train(number, answers(messages, lambda node: 1.0))
        total += vector(arrays)
    assert sorted(seen) == list(range(100, 130))
    np.testing.assert_allclose(total, 4.0, atol=0.1)  # each of 30 users once, divided by 30/4
    assert len(list(strategy.configure_train(5, model(), ConfigRecord(), nodes))) <= 50
    assert len(strategy.accountant) == 2


def test_noise_comes_also_without_replies_and_updates_are_clipped() -> None:
    strategy = AllocationStrategy(
        FedAvg(), noise_multiplier=2.0, max_norm=0.5, steps=1, users=1, delta=DELTA
    )
    sent = []
    for number in range(300):
        list(strategy.configure_train(number, model(), ConfigRecord(), Nodes(1)))
        sent.append(vector(strategy.aggregate_train(number, [])[0]))
        strategy.accountant = sa.FourierAccountant()
    noise = np.array(sent)
    assert abs(noise.mean()) < 5.0 / np.sqrt(noise.size)  # 5 standard errors: RARE
    assert abs(noise.std() - 1.0) < 5.0 / np.sqrt(2.0 * noise.size)
    quiet = AllocationStrategy(
        FedAvg(), noise_multiplier=1e-9, max_norm=0.5, steps=1, users=3, delta=DELTA
    )
    messages = list(quiet.configure_train(1, model(), ConfigRecord(), Nodes(3)))
    large = answers(messages, lambda node: [1e4, np.nan, 0.0][node - 100])
    assert np.linalg.norm(vector(quiet.aggregate_train(1, large)[0])) == pytest.approx(0.5 / 3)


def test_epochs_stop_at_the_budget() -> None:
    strategy = AllocationStrategy(
        FedAvg(), noise_multiplier=1.0, max_norm=1.0, steps=3, users=5, delta=DELTA, max_epsilon=6.0
    )
    released = 0
    for number in range(60):
        messages = list(strategy.configure_train(number, model(), ConfigRecord(), Nodes(5)))
        released += strategy.aggregate_train(number, answers(messages, float))[0] is not None
    most = int(sa.max_rounds(round=strategy.epoch, target_epsilon=6.0, delta=DELTA))
    assert released == 3 * most > 0
    assert strategy.epsilon() <= 6.0


# Whole simulations


def client_app(mods: list[Any]) -> ClientApp:
    """Clients that move towards ones; some drop out, some fail."""
    app = ClientApp(mods=mods)

    @app.train()
    def train(message: Message, ctxt: Context) -> Message:
        if int(ctxt.node_config["partition-id"]) == 1:
            raise RuntimeError("a client fails in training")
        arrays = {
            k: Array(np.asarray(v.numpy() + 0.5 * (1.0 - v.numpy()), dtype=v.numpy().dtype))
            for k, v in message.content["arrays"].items()
        }
        content = RecordDict(
            {"arrays": ArrayRecord(arrays), "metrics": MetricRecord({"num-examples": 3})}
        )
        return Message(content=content, reply_to=message)

    return app


class DropOut:
    """A mod outside the randomizer: the devices of two clients are off."""

    def __call__(self, message: Any, ctxt: Any, call_next: Any) -> Any:
        if int(ctxt.node_config["partition-id"]) in (4, 7):
            return Message(Error(code=1, reason="the device is off"), reply_to=message)
        return call_next(message, ctxt)


def simulate(strategy: Any, mods: list[Any], nodes: int, rounds: int) -> Any:
    from flwr.simulation import run_simulation

    results = []
    server = ServerApp()

    @server.main()
    def main(grid: Any, ctxt: Context) -> None:
        results.append(strategy.start(grid=grid, initial_arrays=model(), num_rounds=rounds))

    run_simulation(
        server_app=server,
        client_app=client_app(mods),
        num_supernodes=nodes,
        backend_config={"client_resources": {"num_cpus": 1}},
    )
    return results[0]


@pytest.fixture
def server_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    logging.getLogger("flwr").addHandler(caplog.handler)
    caplog.set_level(logging.INFO, "flwr")
    return caplog


@pytest.mark.slow
def test_a_simulation_with_shuffled_updates(
    tmp_path: Path, server_log: pytest.LogCaptureFixture
) -> None:
    randomizer = PrivUnit(dimension=DIMENSION, eps0=4.0)
    ledger = ShuffleLedger.open(
        f"sqlite:///{tmp_path}/privacy.db",
        "federated",
        randomizer=randomizer,
        users=20,
        budget=(9.0, DELTA),
    )
    strategy = ShuffledStrategy(FedAvg(min_train_nodes=20), ledger=ledger, min_users=15)
    mod = LocalRandomizerMod(randomizer, max_norm=2.0, max_rounds=50)
    result = simulate(strategy, [DropOut(), mod], nodes=20, rounds=6)
    again = ShuffleLedger.open(f"sqlite:///{tmp_path}/privacy.db", "federated")
    assert 0 < len(again) < 6
    assert again.epsilon() <= 9.0
    assert again.would_exceed(sa.ShuffleRound(randomizer, users=18))
    assert list(result.train_metrics_clientapp) == list(range(1, len(again) + 1))
    assert {one["users"] for one in result.train_metrics_clientapp.values()} == {18}
    assert f"privacy: epsilon <= {again.epsilon():.4f} at delta = 1e-05" in server_log.text
    assert "a client fails" not in server_log.text
    assert np.any(vector(result.arrays) != 0.0)
    assert not result.evaluate_metrics_clientapp


@pytest.mark.slow
def test_a_simulation_with_central_noise(server_log: pytest.LogCaptureFixture) -> None:
    strategy = AllocationStrategy(
        FedAvg(),
        noise_multiplier=1.0,
        max_norm=2.0,
        steps=3,
        users=20,
        delta=DELTA,
        max_epsilon=5.0,
    )
    result = simulate(strategy, [DropOut()], nodes=20, rounds=12)
    rounds = list(result.train_metrics_clientapp)
    most = int(sa.max_rounds(round=strategy.epoch, target_epsilon=5.0, delta=DELTA))
    assert 0 < most < 4
    assert rounds == list(range(1, 3 * most + 1))
    assert strategy.epsilon() <= 5.0
    assert "privacy: epsilon <= " in server_log.text
    assert vector(result.arrays).mean() > 0.0  # eighteen of twenty pull towards 1


def test_the_guide_s_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = Path(__file__).resolve().parent.parent.parent / "docs" / "guides" / "flower.md"
    blocks = re.findall(r"^```py\n(.*?)^```$", guide.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)
    assert isinstance(names["strategy"], AllocationStrategy)
    assert (tmp_path / "federated.db").exists()
