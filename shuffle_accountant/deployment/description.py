"""Deployments: everything that devices, shufflers and analysts must agree on, as one JSON file.

A deployment has a shuffled round and how often it happens, the target, the certified bracket of
epsilon, the program that devices run, with the whole numbers it needs, and the conditions under
which all of that holds. Whoever reads the file computes the bracket and the program anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from shuffle_accountant import certificates
from shuffle_accountant import validation as validate
from shuffle_accountant.accountant import FourierAccountant
from shuffle_accountant.bracket import Bracket, __version__
from shuffle_accountant.certificates.schema import Certificate, json_content
from shuffle_accountant.deployment.programs import Program, program_of, vectors_of
from shuffle_accountant.randomizers.estimation import Estimate, FrequencyEstimator
from shuffle_accountant.registry import digest_of, sealed, unsealed
from shuffle_accountant.rounds.protocol import MAX_ROUNDS, Protocol
from shuffle_accountant.rounds.shuffle import ShuffleRound

SCHEMA = 1
KIND = "shuffle-deployment"
_FIELDS = (
    *("schema", "kind", "version", "protocol", "target", "claim"),
    *("program", "conditions", "certificate"),
)
_CLAIM = ("lower", "upper", "reduction")
# Conditions of every program, beside those of the round.
_DEVICES = (
    "Devices run the program stated with the integers stated, on bytes of the operating system's "
    "cryptographic source, once per round and value",
    "How long a device takes, and what it sends besides, say nothing about the value or the coins",
)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A shuffled survey as it is run: what devices do, how often, and what that costs in privacy.

    Devices round the randomizer's probabilities to multiples of 2^-53, so that they reveal less:
    `shuffle_accountant.deployment.programs` has the proof that the round's upper end holds for
    them.

    Args:
        round: users, and the randomizer that each of their devices runs: k-ary randomized response,
            RAPPOR, subset selection, local hashing or Hadamard response, of all users alike.
        rounds: how often the round happens at most, >= 1.
        target_epsilon: that all rounds together may cost at most, nats, > 0.
        delta: of the target, in (0, 1).
        certificate: of the protocol, see `certified`.
    """

    round: ShuffleRound
    rounds: int = 1
    target_epsilon: float
    delta: float
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        one = validate.instance(ShuffleRound, round=self.round)
        if one.others or one.population is not None:
            raise ValueError(
                "round of a deployment must have one randomizer and no population, got "
                f"{one!r:.120}"
            )
        # a frozen dataclass allows this alone
        vars(self).update(
            rounds=validate.integer(minimum=1, maximum=MAX_ROUNDS, rounds=self.rounds),
            target_epsilon=validate.positive(target_epsilon=self.target_epsilon),
            delta=validate.open_unit(delta=self.delta),
        )
        if self.certificate is not None:
            certificate = validate.instance(Certificate, certificate=self.certificate)
            if Protocol.from_dict(certificate.content["protocol"]) != self.protocol:
                raise ValueError("certificate must be of the deployment's protocol, got another's")
            if not certificate.delta <= self.delta:
                raise ValueError(
                    f"certificate must be of a delta <= {self.delta!r}, got {certificate.delta!r}"
                )
        program_of(one.randomizer)  # refuses what devices cannot run

    @property
    def mechanism(self) -> FrequencyEstimator:
        """The round's randomizer, which estimates from the messages."""
        assert isinstance(self.round.randomizer, FrequencyEstimator)
        return self.round.randomizer

    @cached_property
    def program(self) -> Program:
        """What devices run: integers, and a reference implementation."""
        return program_of(self.round.randomizer)

    @property
    def _described(self) -> dict[str, Any]:
        return {**self.program.to_dict(), "eps0": self.program.eps0}

    @property
    def protocol(self) -> Protocol:
        """All rounds."""
        return Protocol([(self.round, self.rounds)])

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions under which the bracket holds for the devices' messages."""
        return (*self.protocol.conditions, *(f"{one}." for one in _DEVICES))

    @cached_property
    def bracket(self) -> Bracket:
        """Certified bracket of epsilon of all rounds at `delta`, for the randomizer as written.

        Its upper end holds for the devices' programs too.
        """
        return FourierAccountant().compose(self.protocol).epsilon(delta=self.delta)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of what devices and shufflers must agree on, 64 hexadecimal digits."""
        return digest_of([self.protocol.to_dict(), self.program.to_dict()])

    def check(self, *, proof: bool = False) -> Bracket:
        """Compute the bracket of epsilon anew, and refuse a deployment that misses its target.

        Args:
            proof: whether the certificate, which there must be, is verified in ball arithmetic
                too: it takes seconds, and python-flint (extra ``verify``).

        Raises:
            ValueError: the upper end is above the target, or the certificate is not proven.
        """
        bracket = self.bracket
        if not bracket.upper <= self.target_epsilon:
            raise ValueError(
                f"target_epsilon must be at least the certified {bracket.upper!r} of all rounds "
                f"at delta = {self.delta!r}, got {self.target_epsilon!r}"
            )
        if validate.flag(proof=proof):
            if self.certificate is None:
                raise ValueError("certificate must be there for a proof, got None")
            found = certificates.verify(self.certificate)
            if not found.verified:
                raise ValueError(f"certificate must be proven, got: {found.reason}")
        return bracket

    def certified(self) -> Deployment:
        """The deployment with a certificate of its protocol, which anyone can check.

        It takes seconds for thousands of users and a minute for millions. The certificate's epsilon
        is a little above the bracket's upper end.

        Raises:
            ImportError: python-flint is not installed (extra ``verify``).
        """
        accountant = FourierAccountant().compose(self.protocol)
        return replace(self, certificate=accountant.certificate(delta=self.delta))

    def randomize(self, values: ArrayLike, rng: Generator | None = None) -> NDArray[Any]:
        """Messages of users' values, as devices make them, with the same probabilities exactly.

        Args:
            values: integers in 0 … k - 1, any shape.
            rng: source of randomness; by default the operating system's cryptographic one.

        Returns:
            The messages, as the mechanism's own `randomize` returns them; seeds of local hashing
            are below 2^53, which every JSON reader holds exactly.
        """
        return self.program.messages(values, rng)

    def estimate(self, messages: Any) -> Estimate:
        """Unbiased frequencies of all categories from one message of each user.

        Args:
            messages: an array, nested lists as in JSON, or a Dask collection of messages.
        """
        return self.mechanism.estimate(messages)

    def vectors(self, *, count: int = 1000) -> list[dict[str, Any]]:
        """Test vectors of the program: what its ports to other languages must reproduce.

        The same ones whenever they are asked for. They include draws at the edges of all ranges.

        Args:
            count: how many, >= 1.

        Returns:
            Plain JSON types: the value, the random bytes as hexadecimal digits, of which a port
            must use all, and the message.
        """
        return vectors_of(self.program, validate.integer(minimum=1, count=count))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, with a digest."""
        bracket = self.bracket
        return sealed(
            {
                "schema": SCHEMA,
                "kind": KIND,
                "version": __version__,
                "protocol": self.protocol.to_dict(),
                "target": {"epsilon": self.target_epsilon, "delta": self.delta},
                "claim": {name: getattr(bracket, name) for name in _CLAIM},
                "program": self._described,
                "conditions": list(self.conditions),
                "certificate": None if self.certificate is None else self.certificate.content,
            }
        )

    def to_json(self) -> str:
        """The file's text, which `load` reads."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def load(cls, path_or_text: str | os.PathLike[str]) -> Deployment:
        """The deployment of a file or of its text, checked.

        Its digest must fit, the program and, of this version's files, the conditions must be those
        of the protocol. The bracket is computed anew: its upper end must be within the target, and
        the claim not below its lower end. A certificate must be of the same protocol; `check`
        verifies it if asked to.
        """
        state = _content(path_or_text)
        deployment = cls.from_dict(state)
        least = deployment.check().lower
        stated = validate.finite_nonnegative(upper=_object(_CLAIM, claim=state["claim"])["upper"])
        if not stated >= least:
            raise ValueError(f"claim must be at least the certified {least!r}, got {stated!r}")
        return deployment

    @classmethod
    def from_dict(cls, state: Any) -> Deployment:
        """Inverse of `to_dict`, without `check`; the bracket is not computed."""
        state = unsealed(state, {SCHEMA: _FIELDS}, sealed_since=1)
        if state["kind"] != KIND:
            raise ValueError(f"kind must be {KIND!r}, got {validate.shown(state['kind'])}")
        protocol = Protocol.from_dict(state["protocol"])
        if len(protocol.distinct) != 1:
            raise ValueError(f"protocol must have one round, got {len(protocol.distinct)}")
        ((one, rounds),) = protocol.distinct
        target = _object(("epsilon", "delta"), target=state["target"])
        held = state["certificate"]
        found = cls(
            round=validate.instance(ShuffleRound, round=one),
            rounds=rounds,
            target_epsilon=target["epsilon"],
            delta=target["delta"],
            certificate=None if held is None else Certificate(json.dumps(held)),
        )
        if state["program"] != found._described:
            raise ValueError(
                f"program must be that of the protocol, {validate.shown(found._described)}, got "
                f"{validate.shown(state['program'])}"
            )
        stated = validate.items(conditions=state["conditions"])
        if state["version"] == __version__ and stated != list(found.conditions):
            raise ValueError("conditions must be those of the protocol, got others")
        return found


def _content(path_or_text: str | os.PathLike[str]) -> Any:
    """What the JSON of a file or of a text holds."""
    if isinstance(path_or_text, str) and path_or_text.lstrip().startswith("{"):
        text = path_or_text
    elif isinstance(path_or_text, str | os.PathLike):
        try:
            text = Path(path_or_text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "no text in UTF-8"
            raise ValueError(
                f"path_or_text must be a file that can be read, or JSON, got "
                f"{validate.shown(str(path_or_text))}: {why}"
            ) from None
    else:
        raise TypeError(
            f"path_or_text must be a path or JSON, got {validate.shown(path_or_text)} of type "
            f"{type(path_or_text).__name__}"
        )
    return json_content("deployment", text)


def _object(fields: tuple[str, ...], **named: Any) -> Mapping[str, Any]:
    ((name, value),) = named.items()
    if not isinstance(value, dict) or set(value) != set(fields):
        raise ValueError(f"{name} must have the fields {fields}, got {validate.shown(value)}")
    return value
