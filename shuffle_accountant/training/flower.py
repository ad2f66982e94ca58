# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.
"""Federated learning with Flower (extra ``flower``): a client's mod and two server strategies.

* `LocalRandomizerMod` and `ShuffledStrategy`: every client clips and randomizes its own update; the
  server application shuffles, accounts in a `ShuffleLedger`, and stops at the budget. Clients must
  trust that application to forget who sent what, since messages carry their senders; nobody else.
* `AllocationStrategy`: central noise for clients who trust the server with their updates; all are
  dealt at random to the steps of an epoch.

Flower's own wrappers with differential privacy compose Gaussian events of their own, so no shuffled
ledger can be their accountant.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from logging import INFO, WARNING
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.facades import explain_calls
from shuffle_accountant.numerics.secure import secure_generator
from shuffle_accountant.randomizers.noise import GaussianVectors
from shuffle_accountant.randomizers.vectors import VectorRandomizer
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.ledger import ShuffleLedger

try:
    from flwr.app import (
        Array,
        ArrayRecord,
        ConfigRecord,
        Error,
        Message,
        MessageType,
        MetricRecord,
        RecordDict,
    )
    from flwr.serverapp.strategy import Strategy
    from flwr.supercore import log
except ModuleNotFoundError as absent:
    raise ImportError(
        "training.flower needs Flower: pip install '.[flower]' in a clone"
    ) from absent

__all__ = ["AllocationStrategy", "LocalRandomizerMod", "ShuffledStrategy"]

_WEIGHT = "num-examples"
# Where a client's state counts the rounds that it took part in.
_STATE, _ROUNDS = "shuffle-accountant", "rounds"
# Flower's code for a mod whose conditions are not met.
_REFUSED = 300
# Seconds that an epoch waits for nodes.
_PATIENCE = 600.0


def only_arrays(content: Any) -> tuple[str, Any]:
    """The one record of arrays of a message, with its key."""
    if len(content.array_records) != 1:
        raise ValueError(f"content must hold one ArrayRecord, got {len(content.array_records)}")
    ((key, arrays),) = content.array_records.items()
    return str(key), arrays


def dimension_of(arrays: Any) -> int:
    """Number of floating-point numbers in a model."""
    return sum(one.size for one in _arrays(arrays).values() if _is_float(one))


def update_of(received: Any, returned: Any) -> NDArray[np.float64]:
    """Returned − received over all floating-point arrays; the zero vector if that makes no sense.

    An error would tell everybody of that one client.
    """
    before = {key: one for key, one in _arrays(received).items() if _is_float(one)}
    zero = np.zeros(dimension_of(received))
    try:
        after = _arrays(returned)
        if any(after[k].shape != one.shape or not _is_float(after[k]) for k, one in before.items()):
            return zero
        with np.errstate(all="ignore"):  # a warning would tell of it, too
            parts = [
                after[key].astype(np.float64).ravel() - one.astype(np.float64).ravel()
                for key, one in before.items()
            ]
    except Exception:
        return zero
    update = np.concatenate(parts) if parts else zero
    return update if np.all(np.isfinite(update)) else zero


def clipped(update: NDArray[np.float64], max_norm: float) -> NDArray[np.float64]:
    """The update scaled down to a Euclidean norm of at most ``max_norm``."""
    largest = float(np.max(np.abs(update), initial=0.0))
    if largest == 0.0:
        return update
    unit = update / largest  # no square overflows or vanishes
    norm = float(np.linalg.norm(unit))
    return update if largest * norm <= max_norm else unit * (max_norm * (1.0 - 1e-12) / norm)


def updated(received: Any, update: NDArray[np.float64]) -> Any:
    """A new record: received + update, each array of its type; integer arrays as they were."""
    found, place = {}, 0
    for key, one in _arrays(received).items():
        if _is_float(one):
            part = update[place : place + one.size].reshape(one.shape)
            place += one.size
            # a number beyond the type's range would be an infinity that the next round starts from
            most = np.finfo(one.dtype).max
            one = np.clip(one.astype(np.float64) + part, -most, most).astype(one.dtype)
        found[key] = Array(np.asarray(one))
    return ArrayRecord(found)


def like(received: Any, arrays: Any) -> Any:
    """The arrays with the types of those received: averages of integers are rounded."""
    found, after = {}, _arrays(arrays)
    for key, one in _arrays(received).items():
        new = after[key]
        if not _is_float(one) and _is_float(new):
            new = np.rint(new)
        found[key] = Array(np.asarray(new.astype(one.dtype)))
    return ArrayRecord(found)


def _arrays(record: Any) -> Mapping[str, NDArray[Any]]:
    return {key: np.asarray(one.numpy()) for key, one in record.items()}


def _is_float(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f"


class LocalRandomizerMod:
    """Clips and randomizes what a client trained, and sends nothing else.

        app = ClientApp(mods=[LocalRandomizerMod(PrivUnit(dimension=650, eps0=4.0), max_norm=1.0,
                                                 max_rounds=100)])

    It must be the *outermost* mod, the first of the list. It acts on messages of type TRAIN alone.
    The update is what the application returned minus what it received, over all floating-point
    arrays. An exception or an update that is not finite becomes the zero vector, so that whether a
    client answers does not depend on its data. The reply is built from scratch: the same keys, the
    received arrays plus the randomized update, integer arrays as received, and a weight of 1.
    Losses, other metrics and numbers of examples do not leave the client.

    What the client is promised, eps0 (or the noise), is fixed here, whatever the server asks for;
    so is for how many rounds. They are counted in the client's state before anything is sent.

    Args:
        randomizer: what is applied to the clipped update; a `VectorRandomizer` of as many
            dimensions as the model has floating-point numbers, or `GaussianVectors`.
        max_norm: Euclidean norm that updates are clipped to, finite, > 0.
        max_rounds: rounds that this client takes part in at most, >= 1.
    """

    def __init__(
        self, randomizer: VectorRandomizer | GaussianVectors, *, max_norm: float, max_rounds: int
    ) -> None:
        if not isinstance(randomizer, VectorRandomizer | GaussianVectors):
            raise TypeError(
                "randomizer must be a VectorRandomizer or GaussianVectors, got "
                f"{validate.shown(randomizer)}"
            )
        self.randomizer = randomizer
        self.max_norm = validate.positive(max_norm=max_norm)
        self.max_rounds = validate.integer(minimum=1, max_rounds=max_rounds)

    def __call__(self, msg: Any, ctxt: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        """Answer a message; see the class."""
        if msg.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(msg, ctxt)
        key, received = only_arrays(msg.content)
        # the answer is built from copies: the application may do to its message what it likes
        dimension = dimension_of(received)
        wanted = getattr(self.randomizer, "dimension", dimension)
        if dimension != wanted:
            return self._refused(msg, f"the model has {dimension} numbers, the randomizer {wanted}")
        if not self._counted(ctxt):
            return self._refused(msg, f"this client takes part in {self.max_rounds} rounds at most")
        before = updated(received, np.zeros(dimension))
        update = self._trained(before, msg, ctxt, call_next)
        weight = MetricRecord({_WEIGHT: 1})
        content = RecordDict({key: updated(before, self._randomized(update)), "metrics": weight})
        return Message(content=content, reply_to=msg)

    def _trained(
        self, before: Any, msg: Any, ctxt: Any, call_next: Callable[[Any, Any], Any]
    ) -> NDArray[np.float64]:
        """The update; the zero vector if there is none."""
        rounds = ctxt.state[_STATE][_ROUNDS]
        try:
            with suppress(Exception):
                reply = call_next(msg, ctxt)
                if not reply.has_error():
                    return update_of(before, only_arrays(reply.content)[1])
            return np.zeros(dimension_of(before))
        finally:  # whatever the application did to the state
            ctxt.state[_STATE] = ConfigRecord({_ROUNDS: rounds})

    def _randomized(self, update: NDArray[np.float64]) -> NDArray[np.float64]:
        one = self.randomizer
        scale = self.max_norm / (1.0 if isinstance(one, GaussianVectors) else one.radius)
        ball = clipped(update, self.max_norm) / scale
        message = one.randomize(ball[np.newaxis, :], secure_generator())[0]
        return np.asarray(message) * scale

    def _counted(self, ctxt: Any) -> bool:
        """Count a round; False if there is none left."""
        rounds = int(ctxt.state.get(_STATE, {}).get(_ROUNDS, 0))
        if rounds >= self.max_rounds:
            return False
        ctxt.state[_STATE] = ConfigRecord({_ROUNDS: rounds + 1})
        return True

    def _refused(self, msg: Any, reason: str) -> Any:
        return Message(Error(code=_REFUSED, reason=f"LocalRandomizerMod: {reason}"), reply_to=msg)


class PrivateStrategy(Strategy):
    """A strategy around another one, which sees one reply of weight 1: the private aggregate."""

    def __init__(self, strategy: Any, *, evaluate: bool) -> None:
        self.strategy = validate.instance(Strategy, strategy=strategy)
        self.evaluate = validate.flag(evaluate=evaluate)
        self._sent: Any = None  # the arrays of the round that is open, if one is
        self._asked: set[int] = set()

    @abstractmethod
    def _text(self) -> str:
        """The guarantee, as one line for the log."""

    def summary(self) -> None:
        """Log the wrapped strategy's summary and what is promised."""
        self.strategy.summary()
        log(INFO, "\t└──> %s", self._text())

    def configure_evaluate(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """No messages, unless ``evaluate``."""
        if not self.evaluate:
            return []
        found: Iterable[Any] = self.strategy.configure_evaluate(server_round, arrays, config, grid)
        return found

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Nothing, unless ``evaluate``."""
        if not self.evaluate:
            return None
        return self.strategy.aggregate_evaluate(server_round, replies)

    def _skipped(self, server_round: int, what: str, reason: object) -> None:
        """Log why a round is not begun, or not released, and close it."""
        self._sent = None
        log(WARNING, "round %d is not %s: %s", server_round, what, reason)

    def _updates(self, replies: Iterable[Any]) -> list[NDArray[np.float64]]:
        """The updates of those who were asked, one each."""
        found: dict[int, NDArray[np.float64]] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error() or node not in self._asked or node in found:
                continue
            with suppress(ValueError):  # not one record of arrays
                found[node] = update_of(self._sent, only_arrays(reply.content)[1])
        return list(found.values())

    def _released(self, server_round: int, update: NDArray[np.float64]) -> Any:
        """The next model, from what the wrapped strategy makes of a private update."""
        sent, self._sent = self._sent, None
        key = getattr(self.strategy, "arrayrecord_key", "arrays")
        weight = MetricRecord({getattr(self.strategy, "weighted_by_key", _WEIGHT): 1})
        reply = Message(  # which the strategy takes for that of a client
            content=RecordDict({key: updated(sent, update), "metrics": weight}),
            dst_node_id=0,
            message_type=MessageType.TRAIN,
            group_id=str(server_round),
        )
        arrays, _ = self.strategy.aggregate_train(server_round, [reply])
        return None if arrays is None else like(sent, arrays)


class ShuffledStrategy(PrivateStrategy):
    """A strategy around another one for clients with a `LocalRandomizerMod`.

        strategy = ShuffledStrategy(FedAvg(), ledger=ledger, min_users=900)
        strategy.start(grid, initial_arrays=..., num_rounds=100)

    A round counts once its replies are there: the ledger steps, in its database if it has one,
    *before* their mean is used. A round that the budget does not allow is not begun, and the last
    model stays. Of fewer than ``min_users`` replies nothing is released and nothing is spent.

    *Who is trusted.* Messages carry their senders, so this application is the shuffler: it takes
    the replies in random order and forgets who sent what. A log or a database of messages beside it
    would break that. *What must be fixed beforehand*: the randomizer, the number of rounds or the
    budget, ``users`` and ``min_users``. Whether a client drops out must not depend on its data.

    Args:
        strategy: chooses the clients of a round and makes the next model of the mean update. It
            must ask no more than the ledger's users.
        ledger: of the randomizer that clients apply, with its users in a round; with a budget, if
            training is to stop at one. A population is that of all connected nodes, of which the
            strategy draws uniformly, in secret; a round with another number of nodes is not begun.
        min_users: replies without which nothing is released; the ledger's users if left out.
        evaluate: whether clients evaluate, which is *not* protected.
    """

    def __init__(
        self,
        strategy: Any,
        *,
        ledger: ShuffleLedger,
        min_users: int | None = None,
        evaluate: bool = False,
    ) -> None:
        super().__init__(strategy, evaluate=evaluate)
        self.ledger = validate.instance(ShuffleLedger, ledger=ledger)
        users = ledger.round.plain_users
        self.min_users = validate.integer(
            minimum=1, maximum=users, min_users=users if min_users is None else min_users
        )

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """The wrapped strategy's messages; none once the budget is spent."""
        self._sent = None
        limit = self.ledger.state_dict()["max_epsilon"]
        if limit is not None and self.ledger.would_exceed():
            self._skipped(server_round, "begun", "the budget is spent")
            return []
        round = self.ledger.round
        nodes = len(list(grid.get_node_ids()))
        if round.population is not None and nodes != round.population:
            self._skipped(server_round, "begun", f"{nodes} nodes, not {round.population}")
            return []
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        if len(messages) > round.plain_users:
            raise ValueError(
                f"strategy must ask at most {round.users} clients, the ledger's users, got "
                f"{len(messages)}"
            )
        if len(messages) < self.min_users:
            self._skipped(server_round, "begun", f"only {len(messages)} clients")
            return []
        self._asked = {message.metadata.dst_node_id for message in messages}
        self._sent = arrays
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """The next model, once the ledger has recorded the round; or nothing."""
        if self._sent is None:
            return None, None
        updates = self._updates(replies)
        users = len(updates)
        if users < self.min_users:
            reason = f"{users} replies, fewer than {self.min_users}"
            self._skipped(server_round, "released", reason)
            return None, None
        try:
            self.ledger.step(users=users)
        except BudgetExceeded as refused:
            self._skipped(server_round, "released", refused)
            return None, None
        mixed = secure_generator().permutation(np.array(updates))
        return self._released(server_round, np.mean(mixed, axis=0)), self._metrics(users)

    def _metrics(self, users: int) -> Any:
        delta, rounds = self.ledger.state_dict()["target_delta"], len(self.ledger)
        metrics: dict[str, float | int] = {"users": users, "rounds-accounted": rounds}
        if delta is not None:
            spent = self.ledger.epsilon()
            text = "privacy: epsilon <= %.4f at delta = %g after %d rounds (%s)"
            log(INFO, text, spent, delta, rounds, spent.reduction)
            metrics |= {"epsilon": float(spent), "delta": delta}
        return MetricRecord(metrics)

    def _text(self) -> str:
        kept = self.ledger.state_dict()
        return (
            f"Shuffled: {self.ledger.round!r}, at least {self.min_users} replies, budget epsilon = "
            f"{kept['max_epsilon']} at delta = {kept['target_delta']}"
        )


class AllocationStrategy(PrivateStrategy):
    """A strategy around another one that adds Gaussian noise at the server; clients are plain.

    At the start of every epoch of ``steps`` rounds all connected nodes are dealt to the rounds,
    each to one, at random. A round asks its nodes alone, clips their updates, adds them up, adds
    noise of standard deviation ``noise_multiplier max_norm``, whether anybody replied or not, and
    divides by the expected number, ``users / steps``. Who drops out counts as zero; newcomers wait
    for the next epoch. Neighbours differ in one client whose update is zeroed out in every epoch.

    An epoch is begun if all of it fits the budget, and is paid for then. *What must be fixed
    beforehand*: the noise, ``steps``, ``users`` and the number of epochs, or the budget.

    Args:
        strategy: makes the next model of the mean update.
        noise_multiplier: noise's standard deviation over ``max_norm``, finite, > 0.
        max_norm: Euclidean norm that updates are clipped to, finite, > 0.
        steps: rounds of an epoch, >= 1.
        users: a public number, about that of the nodes; an epoch waits until this many connected.
        delta: in (0, 1), of the budget and the log.
        max_epsilon: the budget, nats, or None.
        accountant: to go on with, if it is not the first run.
        evaluate: whether clients evaluate, which is *not* protected.
    """

    def __init__(
        self,
        strategy: Any,
        *,
        noise_multiplier: float,
        max_norm: float,
        steps: int,
        users: int,
        delta: float,
        max_epsilon: float | None = None,
        accountant: FourierAccountant | None = None,
        evaluate: bool = False,
    ) -> None:
        super().__init__(strategy, evaluate=evaluate)
        mechanism = GaussianMechanism(noise_multiplier=noise_multiplier)
        self.epoch = RandomAllocation(mechanism, steps=steps)
        self.max_norm = validate.positive(max_norm=max_norm)
        self.users = validate.integer(minimum=1, users=users)
        self.delta = validate.open_unit(delta=delta)
        if max_epsilon is not None:
            max_epsilon = validate.finite_nonnegative(max_epsilon=max_epsilon)
        self.max_epsilon = max_epsilon
        if accountant is None:
            accountant = FourierAccountant()
        self.accountant = validate.instance(FourierAccountant, accountant=accountant)
        self._bins: list[list[int]] = []  # of the steps that are left of this epoch; secret

    def epsilon(self) -> Bracket:
        """Certified bracket of the epsilon (nats) of all epochs begun."""
        return self.accountant.epsilon(delta=self.delta)

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """Messages to the nodes of this step; none once the budget is spent."""
        self._sent = None
        if not self._bins and not self._begin_epoch(server_round, grid):
            return []
        nodes = self._bins.pop()
        self._asked, self._sent = set(nodes), arrays
        config["server-round"] = server_round
        named = {
            getattr(self.strategy, "arrayrecord_key", "arrays"): arrays,
            getattr(self.strategy, "configrecord_key", "config"): config,
        }
        content = RecordDict(named)
        return [
            Message(content=content, message_type=MessageType.TRAIN, dst_node_id=node)
            for node in nodes
        ]

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """The next model, from the noisy sum; also if nobody replied."""
        if self._sent is None:
            return None, None
        total = np.zeros(dimension_of(self._sent))
        for update in self._updates(replies):
            total += clipped(update, self.max_norm)
        noise = self.epoch.mechanism.noise_multiplier * self.max_norm  # type: ignore[union-attr]
        total += noise * secure_generator().standard_normal(total.size)
        arrays = self._released(server_round, total / (self.users / self.epoch.steps))
        spent = self.epsilon()
        text = "privacy: epsilon <= %.4f at delta = %g for %d epochs begun"
        log(INFO, text, spent, self.delta, len(self.accountant))
        return arrays, MetricRecord({"epsilon": float(spent), "delta": self.delta})

    def _begin_epoch(self, server_round: int, grid: Any) -> bool:
        """Deal the nodes, and pay for it; False if the budget does not allow an epoch."""
        if self.max_epsilon is not None:
            state = self.accountant.state_dict()
            after = FourierAccountant.from_state_dict(state).compose(self.epoch)
            if after.epsilon(delta=self.delta) > self.max_epsilon:
                self._skipped(server_round, "begun", "the budget is spent")
                return False
        nodes = self._nodes(grid)
        self.accountant.compose(self.epoch)
        dealt = secure_generator().integers(self.epoch.steps, size=len(nodes))
        self._bins = [[] for _ in range(self.epoch.steps)]
        for node, step in zip(nodes, dealt.tolist(), strict=True):
            self._bins[step].append(node)
        return True

    def _nodes(self, grid: Any) -> list[int]:
        deadline = time.monotonic() + _PATIENCE
        while len(nodes := list(grid.get_node_ids())) < self.users:
            if time.monotonic() > deadline:
                text = "only %d nodes of %d: the epoch begins without"
                log(WARNING, text, len(nodes), self.users)
                break
            time.sleep(1.0)
        return nodes

    def _text(self) -> str:
        budget = math.inf if self.max_epsilon is None else self.max_epsilon
        return f"Allocation: {self.epoch!r}, {self.users} users, budget {budget:g}"


explain_calls(__name__)
