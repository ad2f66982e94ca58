# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.
"""Federated averaging of locally randomized updates; and with central noise, clients dealt."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any

import numpy as np
from flwr.app import Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.numerics.secure import secure_generator
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.flower.client import (
    WEIGHT,
    clipped,
    dimension_of,
    like,
    only_arrays,
    update_of,
    updated,
)
from shuffle_accountant.training.ledger import ShuffleLedger

_PATIENCE = 600.0


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

    def _released(self, server_round: int, update: NDArray[np.float64]) -> Any:
        """The next model, from what the wrapped strategy makes of a private update."""
        sent, self._sent = self._sent, None
        key = getattr(self.strategy, "arrayrecord_key", "arrays")
        weight = MetricRecord({getattr(self.strategy, "weighted_by_key", WEIGHT): 1})
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
        return self._released(server_round, np.mean(updates, axis=0)), self._metrics(users)

    def _updates(self, replies: Iterable[Any]) -> NDArray[np.float64]:
        """The messages of those who were asked, one each, in random order."""
        found: dict[int, NDArray[np.float64]] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error() or node not in self._asked or node in found:
                continue
            try:
                found[node] = update_of(self._sent, only_arrays(reply.content)[1])
            except ValueError:  # not one record of arrays: no reply of the mod
                continue
        rows = np.array(list(found.values())).reshape(len(found), dimension_of(self._sent))
        return secure_generator().permutation(rows)

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

    def _updates(self, replies: Iterable[Any]) -> Iterable[NDArray[np.float64]]:
        seen: set[int] = set()
        for reply in replies:
            node = reply.metadata.src_node_id
            if reply.has_error() or node not in self._asked or node in seen:
                continue
            seen.add(node)
            if len(reply.content.array_records) == 1:
                yield update_of(self._sent, only_arrays(reply.content)[1])

    def _text(self) -> str:
        budget = math.inf if self.max_epsilon is None else self.max_epsilon
        return f"Allocation: {self.epoch!r}, {self.users} users, budget {budget:g}"
