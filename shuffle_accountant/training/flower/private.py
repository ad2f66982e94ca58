# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.
"""Base class of the private strategies, which wrap another one and give it one aggregate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from logging import INFO
from typing import Any

import numpy as np
from flwr.serverapp.strategy import Strategy
from flwr.supercore import log
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.training.flower.client import like, synthetic_reply, updated

__all__ = ["PrivateStrategy"]


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
