"""Settings of the explorer's page, and the Python and command line that stand for them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

import shuffle_accountant as sa
from shuffle_accountant.randomizers.base import LocalRandomizer
from shuffle_accountant.randomizers.registry import named, parameters_of

__all__ = [
    "CATEGORIES",
    "DELTAS",
    "EPOCHS",
    "EPS0",
    "NOISE_MULTIPLIERS",
    "RANDOMIZERS",
    "ROUNDS",
    "STEPS",
    "USERS",
    "Deployment",
    "Training",
]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Shuffled rounds of one randomizer.

    Attributes:
        users: number of users of each round.
        rounds: number of rounds.
        eps0: local privacy parameter of the randomizer, nats.
        delta: privacy parameter of all rounds together.
        categories: number of values; ignored by randomizers that have none.
        randomizer: one of `RANDOMIZERS`.
    """

    users: int = 10_000
    rounds: int = 5
    eps0: float = 4.0
    delta: float = 1e-6
    categories: int = 16
    randomizer: str = "randomized-response"

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
        return sa.Protocol([(sa.ShuffleRound(self.mechanism, users=self.users), self.rounds)])

    @property
    def python(self) -> str:
        """A program that prints the same bracket, picture and rows."""
        given = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        return (
            "import shuffle_accountant as sa\n"
            "\n"
            f"randomizer = sa.{RANDOMIZERS[self.randomizer]}({given})\n"
            f"survey = sa.ShuffleRound(randomizer, users={self.users})\n"
            f"protocol = sa.Protocol([(survey, {self.rounds})])\n"
            f"spent = sa.epsilon(protocol, delta={self.delta!r})\n"
            "print(spent)\n"
            f"print(sa.report(protocol, delta={self.delta!r}))\n"
        )

    @property
    def command(self) -> str:
        """Command lines that print the same."""
        flags = {"randomizer": self.randomizer, **self.parameters}
        asked = _flags(flags | {"users": self.users, "rounds": self.rounds, "delta": self.delta})
        return f"shuffle-accountant epsilon {asked}\nshuffle-accountant report {asked}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A run of DP-SGD.

    Attributes:
        noise_multiplier: deviation of the noise over the norm that gradients are clipped to.
        steps: number of steps of an epoch.
        epochs: number of epochs.
        delta: privacy parameter of all epochs together.
    """

    noise_multiplier: float = 2.0
    steps: int = 100
    epochs: int = 5
    delta: float = 1e-6

    @property
    def python(self) -> str:
        """A program that prints the same rows."""
        given = (
            f"noise_multiplier={self.noise_multiplier!r}, steps={self.steps}, "
            f"epochs={self.epochs}, delta={self.delta!r}"
        )
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
        return f"shuffle-accountant dpsgd {asked}\n"


def _flags(given: Mapping[str, object]) -> str:
    return shlex.join(
        word
        for name, value in given.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    )
