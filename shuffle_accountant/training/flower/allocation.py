# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.
"""Federated averaging with central noise, clients dealt at random to the steps of an epoch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from logging import INFO, WARNING
from typing import Any

import numpy as np
from flwr.app import Message, MessageType, MetricRecord, RecordDict
from flwr.supercore import log
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.numerics.secure import secure_generator
from shuffle_accountant.rounds.allocation import RandomAllocation
from shuffle_accountant.rounds.mechanisms import GaussianMechanism
from shuffle_accountant.training.flower.client import (
    clipped,
    dimension_of,
    only_arrays,
    update_of,
)
from shuffle_accountant.training.flower.shuffled import PrivateStrategy

__all__ = ["AllocationStrategy"]

_PATIENCE = 600.0


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
        self._asked: set[int] = set()

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
        content = RecordDict(
            {
                getattr(self.strategy, "arrayrecord_key", "arrays"): arrays,
                getattr(self.strategy, "configrecord_key", "config"): config,
            }
        )
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
        log(
            INFO,
            "privacy: epsilon <= %.4f at delta = %g for %d epochs begun",
            spent,
            self.delta,
            len(self.accountant),
        )
        return arrays, MetricRecord({"epsilon": float(spent), "delta": self.delta})

    def _begin_epoch(self, server_round: int, grid: Any) -> bool:
        """Deal the nodes, and pay for it; False if the budget does not allow an epoch."""
        if self.max_epsilon is not None:
            state = self.accountant.state_dict()
            after = FourierAccountant.from_state_dict(state).compose(self.epoch)
            if after.epsilon(delta=self.delta) > self.max_epsilon:
                log(WARNING, "round %d is not begun: the budget is spent", server_round)
                return False
        nodes = self._nodes(grid)
        self.accountant.compose(self.epoch)
        steps = self.epoch.steps
        dealt = secure_generator().integers(steps, size=len(nodes))
        self._bins = [[] for _ in range(steps)]
        for node, step in zip(nodes, dealt.tolist(), strict=True):
            self._bins[step].append(node)
        return True

    def _nodes(self, grid: Any) -> list[int]:
        deadline = time.monotonic() + _PATIENCE
        while len(nodes := list(grid.get_node_ids())) < self.users:
            if time.monotonic() > deadline:
                log(
                    WARNING, "only %d nodes of %d: the epoch begins without", len(nodes), self.users
                )
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

    def _told(self) -> str:
        budget = math.inf if self.max_epsilon is None else self.max_epsilon
        return f"Allocation: {self.epoch!r}, {self.users} users, budget {budget:g}"
