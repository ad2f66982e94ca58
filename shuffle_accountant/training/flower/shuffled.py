"""Federated averaging of locally randomized updates, accounted for as shuffled rounds."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any

import numpy as np
from flwr.app import MetricRecord
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.secure import secure_generator
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.flower.client import (
    dimension_of,
    like,
    only_arrays,
    synthetic_reply,
    update_of,
    updated,
)
from shuffle_accountant.training.ledger import ShuffleLedger

__all__ = ["PrivateStrategy", "ShuffledStrategy"]

# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.


# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.


class PrivateStrategy(Strategy):
    """A strategy around another one, which sees one reply of weight 1: the private aggregate.

    Args:
        strategy: makes the next model of the aggregate, such as FedAvg, FedAdam, FedAvgM.
        evaluate: whether clients evaluate. Their losses are *not* protected, so they do not, unless
            one asks for it.
    """

    def __init__(self, strategy: Any, *, evaluate: bool) -> None:
        self.strategy = validate.instance(Strategy, strategy=strategy)
        self.evaluate = validate.flag(evaluate=evaluate)
        self._sent: Any = None  # the arrays of the round that is open, if one is

    @abstractmethod
    def _told(self) -> str:
        """The guarantee, as one line for the log."""

    def summary(self) -> None:
        """Log the wrapped strategy's summary and what is promised."""
        self.strategy.summary()
        log(INFO, "\t└──> %s", self._told())

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

    def _released(self, server_round: int, update: NDArray[np.float64]) -> Any:
        """The next model, from what the wrapped strategy makes of a private update."""
        sent, self._sent = self._sent, None
        key = getattr(self.strategy, "arrayrecord_key", "arrays")
        reply = synthetic_reply(self.strategy, key, updated(sent, update), server_round)
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
        self._asked: set[int] = set()

    def configure_train(
        self, server_round: int, arrays: Any, config: Any, grid: Any
    ) -> Iterable[Any]:
        """The wrapped strategy's messages; none once the budget is spent."""
        self._sent = None
        kept = self.ledger.state_dict()
        if kept["max_epsilon"] is not None and self.ledger.would_exceed():
            log(WARNING, "round %d is not begun: the budget is spent", server_round)
            return []
        round = self.ledger.round
        nodes = len(list(grid.get_node_ids()))
        if round.population is not None and nodes != round.population:
            log(
                WARNING,
                "round %d is not begun: %d nodes, not %d",
                server_round,
                nodes,
                round.population,
            )
            return []
        messages = list(self.strategy.configure_train(server_round, arrays, config, grid))
        if len(messages) > round.plain_users:
            raise ValueError(
                f"strategy must ask at most {round.users} clients, the ledger's users, got "
                f"{len(messages)}"
            )
        if len(messages) < self.min_users:
            log(WARNING, "round %d is not begun: only %d clients", server_round, len(messages))
            return []
        self._asked = {message.metadata.dst_node_id for message in messages}
        self._sent = arrays
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """The next model, once the ledger has recorded the round; or nothing."""
        if self._sent is None:
            return None, None
        updates = self._updates(replies)
        if len(updates) < self.min_users:
            log(
                WARNING,
                "round %d is not released: %d replies, fewer than %d",
                server_round,
                len(updates),
                self.min_users,
            )
            self._sent = None
            return None, None
        try:
            self.ledger.step(users=len(updates))
        except BudgetExceeded as refused:
            log(WARNING, "round %d is not released: %s", server_round, refused)
            self._sent = None
            return None, None
        arrays = self._released(server_round, np.mean(updates, axis=0))
        return arrays, self._metrics(len(updates))

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
        delta = self.ledger.state_dict()["target_delta"]
        metrics: dict[str, float | int] = {"users": users, "rounds-accounted": len(self.ledger)}
        if delta is not None:
            spent = self.ledger.epsilon()
            log(
                INFO,
                "privacy: epsilon <= %.4f at delta = %g after %d rounds (%s)",
                spent,
                delta,
                len(self.ledger),
                spent.reduction,
            )
            metrics |= {"epsilon": float(spent), "delta": delta}
        return MetricRecord(metrics)

    def _told(self) -> str:
        kept = self.ledger.state_dict()
        return (
            f"Shuffled: {self.ledger.round!r}, at least {self.min_users} replies, budget epsilon = "
            f"{kept['max_epsilon']} at delta = {kept['target_delta']}"
        )
