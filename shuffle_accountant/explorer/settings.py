"""Settings of the explorer's page, and the Python and command line that stand for them."""

from __future__ import annotations

import math
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, ClassVar

import shuffle_accountant as sa
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.registry import named, parameters_of


def _one_two_five(largest: int) -> tuple[int, ...]:
    """1, 2, 5, 10, … up to a number."""
    every = (digit * 10**power for power in range(len(str(largest))) for digit in (1, 2, 5))
    return tuple(value for value in every if value <= largest)


# Values of the sliders, up to where every answer of the page takes seconds.
USERS = _one_two_five(10**8)
ROUNDS = _one_two_five(500)
EPS0 = tuple(0.25 * quarter for quarter in range(33))
DELTAS = tuple(float(f"1e-{power}") for power in range(12, 1, -1))
CATEGORIES = (2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
ARRIVALS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 1.0)
COLLUDING = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
TARGETS = (0.1, 0.2, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
BANDS = (0, 2, 4, 8, 16)
SAMPLED = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
THRESHOLDS = (1, 2, 5, 10, 20, 50, 100)
NOISE_MULTIPLIERS = tuple(tenth / 10 for tenth in range(4, 51))
STEPS = _one_two_five(1000)
EPOCHS = _one_two_five(100)
"""The values that the sliders stop at."""

# The public constructor of each randomizer that the command line knows by that name.
RANDOMIZERS = {
    "general": "GeneralRandomizer",
    "randomized-response": "RandomizedResponse",
    "hadamard-response": "HadamardResponse",
    "local-hashing": "LocalHashing",
    "rappor": "RAPPOR",
    "subset-selection": "SubsetSelection",
}
"""The randomizers that can be chosen: the name on the command line, and the class."""

SENDING = {"one message": 1, "two messages": 2, "five messages": 5}
"""What each user sends in a round, as a number of messages."""

_MOST_WEIGHTS = 10**6  # users up to whom the page makes weights, one each


def _known_half(users: int) -> list[float]:
    """Posterior weights of the target's message if who sent the first half of them is known."""
    if users > _MOST_WEIGHTS:
        raise ValueError(f"users must be at most {_MOST_WEIGHTS:,} for weights here, got {users:,}")
    known = users // 2
    return [0.0] * known + [1.0 / (users - known)] * (users - known)


SHUFFLERS: dict[str, Callable[[int], dict[str, Any]]] = {
    "hides who sent what": lambda users: {},
    "recognises a message with probability 1e-9": lambda users: {"exposure": 1e-9},
    "recognises a message with probability 1e-7": lambda users: {"exposure": 1e-7},
    "works in batches of 100 users or more": lambda users: {"minimum_batch": 100},
    "works in two batches": lambda users: {"batches": [users // 2, users - users // 2]},
    "works in two random batches": lambda users: {
        "batches": [users // 2, users - users // 2],
        "random_batches": True,
    },
    "reveals who sent half of the messages": lambda users: {"weights": _known_half(users)},
}
"""How the shuffler works: arguments of `Shuffler`, by the number of users."""

PLAIN_SAMPLINGS = ("allocation", "shuffle", "poisson")
"""Ways of making batches with independent noise."""

_IMPORT = "import shuffle_accountant as sa\n\n"


class Rounds(ABC):
    """Choices that make a protocol, and the code that stands for it."""

    delta: float

    @property
    @abstractmethod
    def definition(self) -> str:
        """The program's part that makes the protocol."""

    @property
    def python(self) -> str:
        """A program that prints the same bracket."""
        return f"{_IMPORT}{self.definition}print(sa.epsilon(protocol, delta={self.delta!r}))\n"

    @property
    def command(self) -> str:
        """Command lines that print the same, of a protocol that is written to a file."""
        flags = f"--protocol protocol.json --delta {self.delta}"
        return (
            "python - > protocol.json <<'END'\n"
            f"import json\n{_IMPORT}{self.definition}"
            "print(json.dumps(protocol.to_dict()))\n"
            "END\n"
            f"shuffle-accountant epsilon {flags}\nshuffle-accountant report {flags}\n"
        )


@dataclass(frozen=True, kw_only=True)
class Deployment(Rounds):
    """Shuffled rounds of one randomizer.

    Attributes:
        users: number of people who are asked in each round.
        eps0: local privacy parameter of the randomizer, nats.
        delta: privacy parameter of all rounds together.
        arrivals: share of them, in (0, 1], who send at least: the round is accounted for as one of
            the fewest, which holds whoever sees who sent.
        colluding: share of those who send, in [0, 1), who work with the observer.
        target: nats that all rounds together may cost, for the eps0 that meets it.
        categories: number of values; ignored by randomizers that have none.
        randomizer: one of `RANDOMIZERS`.
        sending: one of `SENDING`.
        shuffler: one of `SHUFFLERS`.
    """

    users: int = 10_000
    rounds: int = 5
    eps0: float = 4.0
    delta: float = 1e-6
    categories: int = 16
    randomizer: str = "randomized-response"
    sending: str = "one message"
    shuffler: str = "hides who sent what"
    arrivals: float = 1.0
    colluding: float = 0.0
    target: float = 1.0

    @property
    def numbers(self) -> dict[str, Any]:
        """Users who send and, of these, who work with the observer, for a `ShuffleRound`."""
        senders = max(math.floor(self.users * self.arrivals), 1)
        found = {"users": senders}
        if self.colluding > 0.0:
            found["colluding"] = min(math.ceil(senders * self.colluding), senders - 1)
        return found

    @property
    def messages(self) -> dict[str, Any]:
        """How many messages each user sends, for a `ShuffleRound`; nothing for one."""
        each = SENDING[self.sending]
        return {"messages_per_user": each} if each > 1 else {}

    @property
    def leak(self) -> dict[str, Any]:
        """The arguments of the shuffler; none for a perfect one."""
        return SHUFFLERS[self.shuffler](self.numbers["users"])

    @property
    def refused(self) -> str | None:
        """Why there are no answers to these choices, if no theorem covers them."""
        try:
            _ = self.protocol
        except ValueError as reason:
            return str(reason)
        return None

    @property
    def local(self) -> float:
        """Epsilon of all rounds without a shuffler, nats."""
        return self.rounds * self.mechanism.eps0

    @property
    def family(self) -> Callable[..., LocalRandomizer]:
        """The randomizer for any eps0, which is named."""
        others = {name: value for name, value in self.parameters.items() if name != "eps0"}
        return partial(named, self.randomizer, **others)

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters of the randomizer, by name."""
        wanted = parameters_of(self.randomizer)
        given = {"categories": self.categories, "eps0": self.eps0}
        return {name: value for name, value in given.items() if name in wanted}

    @property
    def mechanism(self) -> LocalRandomizer:
        """The randomizer itself."""
        return named(self.randomizer, **self.parameters)

    @property
    def protocol(self) -> sa.Protocol:
        """All rounds."""
        shuffler = sa.Shuffler(**leak) if (leak := self.leak) else None
        survey = sa.ShuffleRound(self.mechanism, **self.numbers, **self.messages, shuffler=shuffler)
        return sa.Protocol([(survey, self.rounds)])

    @property
    def definition(self) -> str:
        """The program's part that makes the protocol."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        numbers = self.numbers | self.messages
        asked = ", ".join(f"{name}={value}" for name, value in numbers.items())
        if leak := self.leak:
            leaks = ", ".join(f"{name}={_written(value)}" for name, value in leak.items())
            asked += f", shuffler=sa.Shuffler({leaks})"
        return (
            f"randomizer = sa.{RANDOMIZERS[self.randomizer]}({given})\n"
            f"survey = sa.ShuffleRound(randomizer, {asked})\n"
            f"protocol = sa.Protocol([(survey, {self.rounds})])\n"
        )

    @property
    def python(self) -> str:
        """A program that prints the same bracket, picture and rows."""
        return (
            f"{_IMPORT}{self.definition}"
            f"spent = sa.epsilon(protocol, delta={self.delta!r})\n"
            "print(spent)\n"
            f"print(sa.report(protocol, delta={self.delta!r}))\n"
        )

    @property
    def command(self) -> str:
        """Command lines that print the same."""
        if self.leak:
            return super().command
        flags = {"randomizer": self.randomizer, **self.parameters, **self.messages}
        asked = _flags(flags | self.numbers | {"rounds": self.rounds, "delta": self.delta})
        return f"shuffle-accountant epsilon {asked}\nshuffle-accountant report {asked}\n"


@dataclass(frozen=True, kw_only=True)
class Thresholds(Rounds):
    """Counts of sampled reports, of which those below a threshold are dropped."""

    probability: float = 0.1
    threshold: int = 20
    rounds: int = 5
    delta: float = 1e-6

    local: ClassVar[float] = math.inf
    """Epsilon of reports as they are."""

    @property
    def protocol(self) -> sa.Protocol:
        """All rounds."""
        one = sa.SampleAndThreshold(probability=self.probability, threshold=self.threshold)
        return sa.Protocol([(one, self.rounds)])

    @property
    def definition(self) -> str:
        """The program's part that makes the protocol."""
        return (
            f"count = sa.SampleAndThreshold(probability={self.probability!r}, "
            f"threshold={self.threshold})\n"
            f"protocol = sa.Protocol([(count, {self.rounds})])\n"
        )


@dataclass(frozen=True, kw_only=True)
class Memoised(Rounds):
    """Rounds in which each user sends noisy copies of one binary answer, which it keeps.

    The eps0 are of the permanent answer and of a copy; the colluding are among the users.
    """

    permanent: float = 4.0
    instantaneous: float = 2.0
    users: int = 10_000
    colluding: int = 0
    rounds: int = 5
    delta: float = 1e-6

    @property
    def local(self) -> float:
        """Epsilon of the answer that is kept, without a shuffler, nats."""
        return self.permanent

    @property
    def protocol(self) -> sa.Protocol:
        """All rounds."""
        one = sa.MemoisedRounds(
            permanent=sa.RandomizedResponse(categories=2, eps0=self.permanent),
            instantaneous=sa.RandomizedResponse(categories=2, eps0=self.instantaneous),
            users=self.users,
            rounds=self.rounds,
            same_participants=True,
            colluding=self.colluding,
        )
        return sa.Protocol([(one, 1)])

    @property
    def definition(self) -> str:
        """The program's part that makes the protocol."""
        return (
            "survey = sa.MemoisedRounds(\n"
            f"    permanent=sa.RandomizedResponse(categories=2, eps0={self.permanent!r}),\n"
            f"    instantaneous=sa.RandomizedResponse(categories=2, eps0={self.instantaneous!r}),\n"
            f"    users={self.users},\n    rounds={self.rounds},\n    same_participants=True,\n"
            f"    colluding={self.colluding},\n"
            ")\n"
            "protocol = sa.Protocol([(survey, 1)])\n"
        )


@dataclass(frozen=True, kw_only=True)
class Training:
    """A run of DP-SGD.

    Attributes:
        noise_multiplier: deviation of the noise over the norm that gradients are clipped to.
        steps: number of steps of an epoch.
        bands: coefficients of correlated noise, whose row takes seconds; 0 for none.
    """

    noise_multiplier: float = 2.0
    steps: int = 100
    epochs: int = 5
    bands: int = 0
    delta: float = 1e-6

    @property
    def samplings(self) -> tuple[str, ...]:
        """Ways of making batches that are compared."""
        return (*PLAIN_SAMPLINGS, "banded") if self.bands else PLAIN_SAMPLINGS

    @property
    def python(self) -> str:
        """A program that prints the same rows."""
        given = (
            f"noise_multiplier={self.noise_multiplier!r}, steps={self.steps}, "
            f"epochs={self.epochs}, delta={self.delta!r}"
        )
        if self.bands:
            given += f",\n    samplings={self.samplings!r}, bands={self.bands}"
        return (
            "from shuffle_accountant.reports.samplings import compare_samplings\n"
            "\n"
            f"for row in compare_samplings(\n    {given}\n):\n"
            "    print(row.sampling, row.lower, row.upper)\n"
        )

    @property
    def command(self) -> str:
        """The command line that prints the same."""
        flags = {"noise_multiplier": self.noise_multiplier, "steps": self.steps}
        asked = _flags(flags | {"epochs": self.epochs, "delta": self.delta})
        line = f"shuffle-accountant dpsgd {asked}\n"
        if not self.bands:
            return line
        banded = _flags({"sampling": "banded", "bands": self.bands})
        return f"{line}shuffle-accountant dpsgd {asked} {banded}\n"


def _flags(given: Mapping[str, object]) -> str:
    return shlex.join(
        word
        for name, value in given.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    )


def _written(value: object) -> str:
    """A value in Python, of a list its equal neighbours once."""
    if not isinstance(value, list):
        return repr(value)
    return " + ".join(f"[{one!r}] * {len([*run])}" for one, run in groupby(value))
