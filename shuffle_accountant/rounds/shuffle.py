"""The shuffled round: users, their randomizer, sampling, others, colluders, and the shuffler.

Shufflers may be less than perfect: messages are recognised, orders are partial, batches are small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Attained
from shuffle_accountant.engine.classes import Member
from shuffle_accountant.losses.base import DominatingPair
from shuffle_accountant.numerics.rounding import roundings
from shuffle_accountant.randomizers.base import (
    ConcreteRandomizer,
    FiniteRandomizer,
    LocalRandomizer,
)
from shuffle_accountant.randomizers.count_laws import Binomial, count_law_from_dict
from shuffle_accountant.randomizers.registry import randomizer_from_dict
from shuffle_accountant.reductions import base as pairs
from shuffle_accountant.reductions import leaks
from shuffle_accountant.reductions.choice import REDUCTIONS, check, reduce, theorem
from shuffle_accountant.reductions.clones import VARIANTS
from shuffle_accountant.reductions.crowd import Groups, crowd, messages_in_common
from shuffle_accountant.reductions.dataset import attained
from shuffle_accountant.reductions.participation import participation
from shuffle_accountant.registry import as_json
from shuffle_accountant.rounds.base import Drawn, Round, needed, reduced_once

__all__ = ["REDUCTIONS", "VARIANTS", "ShuffleFamily", "ShuffleRound", "attendance", "family_of"]

# Fields that every state has, and further ones with the values that are not written.
_ALWAYS = ("randomizer", "users", "population", "reduction", "variant")
_LATER = {"others": (), "colluding": 0, "messages_per_user": 1, "messages": None, "shuffler": None}


@dataclass(frozen=True, init=False)
class Shuffler:
    """What a shuffler hides of who sent which message; immutable, compared by value.

    One of the following, all drawn afresh in every round but for ``persistent``:

    Args:
        exposure: probability, in [0, 1], that a message is recognised as its sender's, whatever it
            says.
        everyone: whether every message may be exposed, each independently, or only the target's. By
            default every one, which reveals more.
        persistent: whether who is exposed stays the same in all rounds.
        weights: posterior probabilities, given all that the observer knows but contents, of which
            message is the target's; >= 0, of sum 1, one for each user. Given the target's place the
            others must be arranged uniformly; the vector stands for the worst user.
        batches: sizes of the batches that messages are shuffled in, >= 1, of sum ``users``.
        random_batches: whether users are assigned to batches uniformly at random; otherwise the
            bound is that of the smallest batch.
        minimum_batch: the fewest messages that are shuffled together.
    """

    exposure: float
    everyone: bool
    persistent: bool
    weights: tuple[float, ...] | None
    batches: tuple[int, ...] | None
    random_batches: bool
    minimum_batch: int | None

    def __init__(
        self,
        *,
        exposure: float = 0.0,
        everyone: bool | None = None,
        persistent: bool = False,
        weights: Iterable[float] | None = None,
        batches: Iterable[int] | None = None,
        random_batches: bool = False,
        minimum_batch: int | None = None,
    ) -> None:
        exposure = validate.closed_unit(exposure=exposure)
        named = {"weights": weights, "batches": batches, "minimum_batch": minimum_batch}
        given = ["exposure"] if exposure > 0.0 else []
        given += [name for name, value in named.items() if value is not None]
        if len(given) > 1:
            raise ValueError(
                f"exposure, weights, batches and minimum_batch exclude one another, got {given}"
            )
        if minimum_batch is not None:
            minimum_batch = validate.integer(minimum=1, maximum=2**53, minimum_batch=minimum_batch)
        vars(self).update(
            exposure=exposure,
            weights=None if weights is None else _weights(weights),
            batches=None if batches is None else _sizes(batches),
            minimum_batch=minimum_batch,
            everyone=True if everyone is None else validate.flag(everyone=everyone),
            persistent=validate.flag(persistent=persistent),
            random_batches=validate.flag(random_batches=random_batches),
        )

    @property
    def condition(self) -> str:
        """What must hold of the shuffler, as a sentence without its full stop."""
        if self.weights is not None:
            return (
                "The weights stated are those of the worst user and the worst of what the observer "
                "may know, and given the target's place the other messages are arranged uniformly"
            )
        if self.batches is not None and self.random_batches:
            return "Users are assigned to batches of the sizes stated uniformly at random"
        if self.batches is not None or self.minimum_batch is not None:
            return (
                "No batch of messages that are shuffled together is smaller than stated, and who "
                "is in which batch does not depend on the data"
            )
        who = "any message" if self.everyone else "the target's message, and no other,"
        often = "the same in all rounds" if self.persistent else "drawn afresh in every round"
        return (
            f"The observer recognises {who} with no more than the probability stated, whatever it "
            f"says; who is recognised is {often}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal shuffler."""
        return {one.name: as_json(getattr(self, one.name)) for one in fields(self)}

    @classmethod
    def from_dict(cls, state: Any) -> Shuffler:
        """Inverse of `to_dict`."""
        names = sorted(map(str, validate.instance(dict, shuffler=state)))
        wanted = sorted(one.name for one in fields(cls))
        if names != wanted:
            raise ValueError(f"shuffler must be an object with fields {wanted}, got {names}")
        return cls(**state)


def _sizes(batches: Any) -> tuple[int, ...]:
    every = validate.items(batches=batches)
    if not every:
        raise ValueError("batches must be a sequence of sizes >= 1, got none")
    return tuple(sorted(validate.integer(minimum=1, maximum=2**53, batches=one) for one in every))


def _weights(weights: Any) -> tuple[float, ...]:
    every = validate.items(weights=weights.tolist() if isinstance(weights, np.ndarray) else weights)
    plain = all(type(one) is float and 0.0 <= one <= 1.0 for one in every)  # not one by one
    held = tuple(every if plain else (validate.closed_unit(weights=one) for one in every))
    total = math.fsum(held)
    if abs(total - 1.0) > 1e-9:  # weights are given in floating point
        raise ValueError(f"weights must have the sum 1, got {total!r}")
    return held


@dataclass(frozen=True)
class ShuffleFamily:
    """Common parameters of shuffled rounds that are more private the more users they have.

    Attributes:
        randomizer: randomizer of all rounds, but for its eps0 if ``scaled``.
        scaled: whether eps0 differs from round to round.
        reduction: theorem, "clones" or "blanket".
        sampled: whether users are drawn from a population.
    """

    randomizer: LocalRandomizer
    scaled: bool
    reduction: str
    sampled: bool

    @lru_cache(maxsize=1 << 13)  # noqa: B019 - families are few
    def pair(self, users: int, fraction: float, eps0: float) -> pairs.Reduction:
        """The pair of a round of this family, whether its population is a whole number or not."""
        randomizer = self.randomizer.at(eps0) if self.scaled else self.randomizer
        assert randomizer is not None
        inner = reduce(randomizer, users, users, self.reduction, None)
        assert isinstance(inner, pairs.Reduction)
        return pairs.fraction_of(inner, fraction) if self.sampled else inner

    def __hash__(self) -> int:
        """Hash by value, cached because every round asks for it."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.randomizer, self.scaled, self.reduction, self.sampled))


@lru_cache(maxsize=1 << 14)
def family_of(randomizer: LocalRandomizer, reduction: str, sampled: bool) -> ShuffleFamily | None:
    """The family of a round; None where the theorem has not one number of i.i.d. decoys."""
    if reduction == "auto":
        reduction = "blanket" if isinstance(randomizer, ConcreteRandomizer) else "clones"
    decoys = reduction in ("clones", "blanket") and randomizer.noisy_vectors is None
    if not decoys or randomizer.adjacency is not Adjacency.REPLACE_ONE:
        return None
    # an eps0 of 1 stands for every one
    general = randomizer.at(1.0) if 0.0 < randomizer.eps0 < math.inf else None
    return ShuffleFamily(general or randomizer, general is not None, reduction, sampled)


@dataclass(frozen=True, init=False)
class ShuffleRound(Round):
    """One round: every user taking part randomizes one message, a shuffler forgets who sent what.

    Rounds are immutable, hashable and compared by value; equal rounds compose into one power.

    Args:
        randomizer: the local randomizer that all users of the round apply. It may have been chosen
            by looking at the outputs of earlier rounds.
        users: how many send a message (or several, see ``messages_per_user``), >= 1; with
            ``others`` those who apply ``randomizer``. May be left out with ``messages``. Or a
            `Binomial`: each of ``trials`` people takes part independently with that probability,
            and the number of messages is visible. Only if attendance is secret (and does not depend
            on the data); otherwise give the fewest who will send. Probability 1 is everybody, which
            equals ``users=trials``.
        population: if given, the ``users`` are drawn anew for this round, uniformly without
            replacement, from this many (>= ``users``); the privacy is that of one person of the
            population. A population equal to ``users`` is no population.
        others: further users who apply randomizers of their own, as ``{randomizer: users}``. The
            privacy is that of one who applies ``randomizer``; `for_user_of` is the same round for
            the others. Who applies which must be fixed before anybody looks at data.
        colluding: how many of all users (of the population, if there is one) the adversary knows
            everything about, fewer than all; which ones may be any.
        messages_per_user: number of messages that every user of the round sends, >= 1, each
            randomized with fresh coins; all of them may change at once. Clients must enforce it,
            and it must not depend on the data.
        messages: if users may send different numbers of messages: the number N of honest messages
            in all, of which the person whose privacy is asked for sends ``messages_per_user``.
        shuffler: what the shuffler hides, if it is not a uniformly random order of all messages.
        reduction: theorem for the upper bound. "clones" holds for any eps0-LDP randomizer;
            "blanket" for known ones, and is never above the clones; "strong" for k-ary randomized
            response against an adversary who also sees which users answered at random; "null
            clones" for `GaussianVectors`; "null law" for other randomizers of adjacency ZERO_OUT;
            "auto" is the smallest of these that applies. "example" is no bound for other datasets
            than the pair that `GaussianRandomizer` describes.
        variant: for "strong": "exact" (the default), "paper" or "tail", each above the one before;
            see `shuffle_accountant.reductions.clones`.

    Raises:
        ValueError: the reduction does not hold for the randomizer.
    """

    kind: ClassVar[str] = "shuffle"  # which states do not name

    randomizer: LocalRandomizer
    users: int | Binomial
    population: int | None
    reduction: str
    variant: str | None
    others: Groups
    colluding: int
    messages_per_user: int
    messages: int | None
    shuffler: Shuffler | None

    def __init__(
        self,
        randomizer: LocalRandomizer,
        *,
        users: int | Binomial | None = None,
        messages_per_user: int = 1,
        messages: int | None = None,
        shuffler: Shuffler | None = None,
        others: Mapping[LocalRandomizer, int] | None = None,
        colluding: int = 0,
        population: int | None = None,
        reduction: str = "auto",
        variant: str | None = None,
    ) -> None:
        several = validate.integer(minimum=1, maximum=2**53, messages_per_user=messages_per_user)
        if messages is not None:
            messages = validate.integer(minimum=several, maximum=2**53, messages=messages)
        if users is None and messages is not None:
            users = messages // several
        elif users is None:
            raise TypeError(
                f"ShuffleRound needs users: write ShuffleRound({randomizer!r:.80}, users=...)"
            )
        if not isinstance(users, Binomial):
            # counts are exact in double precision up to 2^53
            users = validate.integer(minimum=1, maximum=2**53, users=users)
        elif users.trials < 1:
            raise ValueError(f"users must be a Binomial with trials >= 1, got {users!r}")
        elif users.probability == 1.0:
            users = users.trials  # equal rounds are to be equal values
        if population is not None and isinstance(users, Binomial):
            raise ValueError(
                f"population must be None with users={users!r:.80}, whose trials are the population"
            )
        if population is not None and isinstance(users, int):
            population = validate.integer(minimum=users, maximum=2**53, population=population)
        self._hold(
            randomizer=validate.instance(LocalRandomizer, randomizer=randomizer),  # type: ignore[type-abstract]
            users=users,
            # if nothing is drawn, equal rounds are to be equal values
            population=None if population == users else population,
            reduction=validate.choice(REDUCTIONS, reduction=reduction),
            variant=None if variant is None else validate.choice(VARIANTS, variant=variant),
            others=_checked_others(others),
            colluding=validate.integer(minimum=0, colluding=colluding),
            messages_per_user=several,
            messages=messages,
            shuffler=None if shuffler is None else validate.instance(Shuffler, shuffler=shuffler),
        )
        sampled = isinstance(users, Binomial) or self.population is not None
        check(randomizer, reduction, variant, sampled=sampled)
        if reduction == "strong" and variant is None:
            self._hold(variant=VARIANTS[0])
        elif reduction == "auto" and randomizer.normal_noise is not None:
            # "auto" was once the example pair, and states that say so still mean it
            self._hold(reduction="blanket")
        _check_crowd(self)
        _check_messages(self)
        _check_shuffler(self)

    @property
    def plain(self) -> bool:
        """Whether all of a fixed number of users send one message, and nobody colludes."""
        alike = isinstance(self.users, int) and not self.others and self.colluding == 0
        one = self.messages_per_user == 1 and self.messages is None
        return alike and one and self.shuffler is None

    @property
    def plain_users(self) -> int:
        """Number of users of a plain round, for results that hold for plain rounds alone.

        Raises:
            ValueError: the round is not plain.
        """
        if not isinstance(self.users, int) or not self.plain:
            raise ValueError(
                "round must have one randomizer, a fixed number of users, one message of each and "
                f"colluding=0, got {self!r:.120}"
            )
        return self.users

    @property
    def kinds_of_users(self) -> tuple[LocalRandomizer, ...]:
        """The randomizers of the round, this round's own first."""
        return (self.randomizer, *(other for other, _ in self.others))

    @property
    def people(self) -> int:
        """Number of people who may take part: users or their population, and the others."""
        users = self.users.trials if isinstance(self.users, Binomial) else self.users
        return (self.population or users) + sum(count for _, count in self.others)

    @property
    def weaknesses(self) -> tuple[str, ...]:
        """A randomizer whose messages hide nothing by themselves."""
        return _weaknesses(self.randomizer)

    @property
    def exposed(self) -> float:
        """The exposure, times the total variation distance of one message's laws at most."""
        exposure = 0.0 if self.shuffler is None else self.shuffler.exposure
        return exposure * math.tanh(0.5 * min(self.randomizer.eps0, 700.0))

    def for_user_of(self, randomizer: LocalRandomizer) -> ShuffleRound:
        """The round as seen by a user of another of its randomizers, whom its epsilon protects.

        Raises:
            ValueError: nobody applies it.
        """
        if randomizer == self.randomizer:
            return self
        counts = dict(self.others)
        if randomizer not in counts or not isinstance(self.users, int):
            raise ValueError(
                f"randomizer must be one of {self.kinds_of_users!r:.120}, got {randomizer!r:.80}"
            )
        users = counts.pop(randomizer)
        others: Any = {self.randomizer: self.users, **counts}
        # all else that was said of the round stays as it is
        return replace(self, randomizer=randomizer, users=users, others=others)

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency of the randomizer: one user's value is replaced, or zeroed out."""
        return self.randomizer.adjacency

    @property
    def conditions(self) -> tuple[str, ...]:
        """Assumptions on who sends, on what stays secret, and of the round's theorem."""
        name = theorem(self.randomizer, self.reduction, self.variant)
        if isinstance(self.users, Binomial):
            name += ", random participation"
            attendance = (
                "Each person takes part with the probability stated, independently of all others "
                "and of the data, and who took part stays hidden: the number holds only if "
                "attendance is secret; otherwise design for the fewest who will send"
            )
        elif self.population is not None:
            name += ", subsampled"
            attendance = (
                "The users of each round are drawn anew, uniformly without replacement, from the "
                "population stated, all who are drawn send a message, and who was drawn is secret"
            )
        else:
            name = "blanket, mixed crowd" if self.others else name
            attendance = (
                "As many users as stated send a message in each round, or more: if fewer send, the "
                "number does not hold, so design for the fewest who will send"
            )
        if self.messages is not None:
            attendance = (
                "As many messages as stated are sent by honest users in each round, or more, and "
                "the person whose privacy is asked for sends no more of them than stated: clients "
                "enforce that number, which does not depend on the data"
            )
        elif self.messages_per_user > 1:
            attendance += (
                "; and every user sends exactly as many messages as stated, a number that clients "
                "enforce and that does not depend on the data"
            )
        if self.messages_per_user > 1:
            name += ", blocks"
        if self.shuffler is not None:
            name += f", {_leak(self.shuffler)}"
        independent = "" if self.randomizer.interactive else ", whatever the other messages are"
        found = [
            attendance,
            "Each message is made on its user's device by the randomizer stated, with fresh coins "
            f"that nobody else learns{independent}",
            "The shuffler removes who sent a message, in which order and when, and does not work "
            "with the observer",
            *(() if self.shuffler is None else (self.shuffler.condition,)),
            "No more users than stated work with the observer; which ones may be any"
            if self.colluding
            else "No user works with the observer: who does is to be counted as colluding",
        ]
        if self.others:
            found.append(
                "Who applies which randomizer is fixed beforehand and does not depend on the data; "
                "the number is that of users of the round's own randomizer"
            )
        kinds = self.kinds_of_users
        if any(not isinstance(one, ConcreteRandomizer) for one in kinds):
            found.append("The randomizer has the local privacy stated, for all inputs of a user")
        found += [sentence for one in kinds for sentence in one.conditions]
        if self.reduction == "example":
            found.append(
                "The datasets are the example's, the target holding 0 or 1 and all others 0; other "
                "datasets may lose more"
            )
        return needed(name, *found)

    @property
    def drawn_once(self) -> tuple[Drawn, ...]:
        """Whether the target is exposed, by a persistent shuffler."""
        leak = self.shuffler
        if leak is None or not leak.persistent:
            return ()
        fewest, caught = self._honest, leak.exposure
        if leak.everyone:
            fewest, caught = leaks.fewest_hidden(fewest, caught)
        alone, slack = self._of_users(1), roundings(4)
        return (
            Drawn(
                most=min((1.0 - leak.exposure) * (1.0 + slack), 1.0),
                least=(1.0 - leak.exposure) * (1.0 - slack),
                above=self._of_users(fewest),
                below=self._of_users(self._honest),
            ),
            Drawn(min(caught * (1.0 + slack), 1.0), leak.exposure, above=alone, below=alone),
        )

    @property
    def _honest(self) -> int:
        """Number of users who are not known, the target at least, if it is fixed."""
        assert isinstance(self.users, int)
        return max(self.users - self.colluding, 1)

    def _of_users(self, users: int) -> ShuffleRound:
        """The round with a perfect shuffler and this many users, all honest."""
        return replace(self, users=users, colluding=0, shuffler=None)

    @reduced_once
    def reduced(self) -> DominatingPair:
        """The dominating pair of this round, with the theorem it comes from."""
        if self.shuffler is not None:
            return self._with_leaks(self.shuffler)
        if self.messages_per_user > 1 or self.messages is not None:
            users = self.users if self.messages is None else self.messages // self.messages_per_user
            block = replace(self, users=users, messages_per_user=1, messages=None)
            return pairs.in_blocks(block.reduced(), self.messages_per_user)
        randomizer, reduction, variant = self.randomizer, self.reduction, self.variant
        if isinstance(self.users, Binomial):
            # whether those the adversary knows take part is known to it
            trials = self.users.trials - self.colluding
            return participation(randomizer, trials, self.users.probability, reduction, variant)
        if self.others:
            return crowd(randomizer, self.users, self.others, self.colluding)
        if not self.colluding:
            population = self.population or self.users
            return reduce(randomizer, self.users, population, reduction, variant)
        inner = reduce(randomizer, self._honest, self._honest, reduction, variant)
        if self.population is None:
            return inner
        return pairs.among_colluders(inner, self.users, self.population, self.colluding)

    def _with_leaks(self, leak: Shuffler) -> DominatingPair:
        """The pair of a round whose shuffler hides less."""
        if leak.persistent:
            raise ValueError(
                "shuffler must not be persistent where rounds are taken one by one: who is exposed "
                "is drawn once for all of them; ask an accountant or a protocol"
            )

        def inner(users: int) -> DominatingPair:
            return self._of_users(users).reduced()

        if leak.weights is not None:
            return leaks.among_weighted(inner, self._honest, leak.weights, self.colluding)
        if leak.batches is not None:
            return leaks.in_batches(inner, leak.batches, self.colluding, leak.random_batches)
        if leak.minimum_batch is not None:
            return leaks.in_batches(inner, (leak.minimum_batch,), self.colluding, random=False)
        return leaks.exposed(inner, self._honest, leak.exposure, leak.everyone)

    def in_blocks(self, group: int) -> ShuffleRound | None:
        """The round of ``group`` messages a user (of each message) among as many fewer users."""
        users = self.users // group if isinstance(self.users, int) else 0
        alike = self.population is None and not self.others and self.messages is None
        alone = self.reduction == "example" or self.randomizer.interactive
        if users == 0 or not alike or self.shuffler is not None or alone:
            return None
        return replace(
            self,
            users=users,
            messages_per_user=group * self.messages_per_user,
            colluding=min(-(-self.colluding // group), users - 1),
        )

    @property
    def member(self) -> Member | None:
        """The round as a member of its `ShuffleFamily`; None if the round is in no family."""
        if not self.plain:
            return None
        family = family_of(self.randomizer, self.reduction, self.population is not None)
        if family is None:
            return None
        users = self.plain_users
        fraction = 1.0 if self.population is None else users / self.population
        return Member(family, users, fraction, self.randomizer.eps0 if family.scaled else 1.0)

    def target_among_decoys(self) -> pairs.TargetAmongDecoys | pairs.DensitiesAmongDecoys:
        """The ``(p0, p1, q, n)`` the round was reduced to, given that the target takes part.

        Laws for finite alphabets, densities for continuous ones. Of several pairs of inputs this is
        the one whose likelihood ratios differ most; answers are about the worst pair at each
        epsilon.

        Raises:
            ValueError: null clones, null laws, mixed crowds or random participation, whose number
                of decoys is random.
        """
        reduced = self.reduced()
        if not isinstance(reduced, pairs.Reduction):
            raise ValueError(
                f"target_among_decoys needs one number of decoys, which {reduced.name} have not"
            )
        return reduced.decoys

    def attained(self, *, epsilon: float) -> Attained:
        """Certified lower bound on the real delta, from an explicit pair of datasets.

        The largest over pairs of datasets that differ in the target's value and in which all other
        users hold one value. No upper bound can be below it, whatever its theorem.

        Args:
            epsilon: nats, finite, >= 0.

        Raises:
            ValueError: ``epsilon`` is negative, NaN or infinite, the randomizer is not finite, or
                the round is not plain.
        """
        epsilon = validate.finite_nonnegative(epsilon=epsilon)
        if not isinstance(self.randomizer, FiniteRandomizer):
            raise ValueError(
                "attained needs a randomizer with finitely many inputs and messages, got "
                f"{type(self.randomizer).__name__}"
            )
        population = self.population or self.plain_users
        found = attained(self.randomizer, self.plain_users, population, epsilon)
        return Attained(lower=found[0], upper=found[1], dataset=found[2])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types from which `from_dict` rebuilds an equal round."""
        state = {name: as_json(getattr(self, name)) for name in _ALWAYS}
        # plain rounds are written as they always were
        for name, default in _LATER.items():
            if getattr(self, name) != default:
                state[name] = as_json(getattr(self, name))
        if self.others:
            state["others"] = [
                {"randomizer": other.to_dict(), "users": count} for other, count in self.others
            ]
        return state

    @classmethod
    def from_dict(cls, state: Any) -> ShuffleRound:
        """Inverse of `to_dict`.

        States of version 0.1.0 with reduction "auto" and a `GaussianRandomizer` were answered for
        the example pair: they load as "example".
        """
        if isinstance(state, dict):
            state = {"variant": None, **state}  # schema 1 knew no variants
        if not isinstance(state, dict) or set(state) - set(_LATER) != set(_ALWAYS):
            raise ValueError(
                f"round must be an object with fields {sorted(_ALWAYS)}, got {state!r:.80}"
            )
        randomizer, reduction = randomizer_from_dict(state["randomizer"]), state["reduction"]
        if reduction == "auto" and randomizer.normal_noise is not None:
            reduction = "example"
        users = state["users"]
        if isinstance(users, dict):
            users = count_law_from_dict("users", users)
        others = state.get("others", [])
        if not isinstance(others, list) or any(
            not isinstance(entry, dict) or set(entry) != {"randomizer", "users"} for entry in others
        ):
            raise ValueError(
                "others must be a list of objects with fields ['randomizer', 'users'], got "
                f"{others!r:.80}"
            )
        groups = {randomizer_from_dict(entry["randomizer"]): entry["users"] for entry in others}
        shuffler = Shuffler.from_dict(state["shuffler"]) if "shuffler" in state else None
        read = {"randomizer": randomizer, "users": users, "reduction": reduction}
        return cls(**{**state, **read, "others": groups, "shuffler": shuffler})


@lru_cache(maxsize=128)
def _weaknesses(randomizer: LocalRandomizer) -> tuple[str, ...]:
    eps0 = randomizer.eps0
    if 53.0 * math.log(2.0) < eps0 < math.inf:
        return (
            f"eps0 = {eps0:g} hides nothing in a message: it differs from the truth with a "
            f"probability of about e^-{eps0:g}, less than the 2^-53 to which coins are drawn",
        )
    blanket = randomizer.blanket_mass if isinstance(randomizer, FiniteRandomizer) else 1.0
    if eps0 == math.inf and blanket == 0.0:
        return (
            f"every message of {randomizer!r:.80} rules out some value of its user: no part of it "
            "is independent of the data, and the shuffler hides only who sent it",
        )
    return ()


def attendance(
    users: int, *, min_users: int | None = None, participation: float | None = None
) -> int | Binomial:
    """Number of users who send a message, or its distribution: ``users`` of `ShuffleRound`.

    Args:
        users: people who are asked, >= 1.
        min_users: the fewest of them who will send, for whom the privacy is; by default all.
        participation: instead, the probability, in (0, 1], that each of them sends, independently,
            whatever the data are: only if attendance is secret.
    """
    users = validate.integer(minimum=1, maximum=2**53, users=users)
    if min_users is not None and participation is not None:
        raise ValueError(
            "participation must be None with min_users, which is for attendance that is seen, got "
            f"{validate.shown(participation)} and min_users={validate.shown(min_users)}"
        )
    if min_users is not None:
        return validate.integer(minimum=1, maximum=users, min_users=min_users)
    if participation is None:
        return users
    share = validate.share(participation=participation)
    return users if share == 1.0 else Binomial(trials=users, probability=share)


def _checked_others(others: Any) -> Groups:
    """The other groups of users, checked, in a canonical order; groups of 0 users are left out."""
    if others is None:
        return ()
    if isinstance(others, tuple):  # as they are held
        try:
            others = dict(others)
        except (TypeError, ValueError):  # no pairs, or what cannot be a key
            others = list(others)
    given = validate.instance(Mapping, others=others)  # type: ignore[type-abstract]
    groups = []
    for other, count in given.items():
        other = validate.instance(LocalRandomizer, others=other)  # type: ignore[type-abstract]
        count = validate.integer(minimum=0, maximum=2**53, others=count)
        if count:
            groups.append((other, count))
    return tuple(sorted(groups, key=repr))


def _check_crowd(one: ShuffleRound) -> None:
    """Raise ValueError for combinations of users that no theorem covers."""
    if one.colluding >= one.people:
        raise ValueError(
            f"colluding must be fewer than all {one.people} users, the target's own not being "
            f"among them, got {validate.shown(one.colluding)}"
        )
    if one.people > 2**53:
        raise ValueError(f"users and others must be at most 2^53 together, got {one.people}")
    if isinstance(one.users, Binomial) and one.reduction == "example":
        raise ValueError(
            f"reduction='example' needs a fixed number of users, got users={one.users!r}"
        )
    if one.colluding and one.population is not None and one.reduction == "example":
        raise ValueError(f"colluding must be 0 with reduction='example', got {one.colluding}")
    if not one.others:
        return
    if isinstance(one.users, Binomial) or one.population is not None:
        raise ValueError(
            "others needs a fixed number of users who all take part: of a sample it is not known "
            f"how many of each group are in it, got users={one.users!r}, "
            f"population={one.population!r}"
        )
    if any(other == one.randomizer for other, _ in one.others):
        raise ValueError(
            f"others must apply other randomizers than {one.randomizer!r:.80}, whose users are "
            "counted by users"
        )
    adjacencies = {other.adjacency for other, _ in one.others} | {one.adjacency}
    if len(adjacencies) > 1:
        raise ValueError(
            "others must be of the round's adjacency "
            f"{one.adjacency.named}, got {', '.join(sorted(a.named for a in adjacencies))}"
        )
    if one.reduction not in ("auto", "blanket"):
        raise ValueError(
            f"reduction must be 'auto' or 'blanket' with others, got {one.reduction!r}: a law that "
            "all groups share a part of is needed"
        )
    messages_in_common(one.randomizer, one.others)


def _check_messages(one: ShuffleRound) -> None:
    """Raise ValueError for rounds of several messages a user that no theorem covers."""
    several, sent = one.messages_per_user, one.messages
    if several == 1 and sent is None:
        return
    given = f"messages_per_user={several}, messages={sent}"
    if isinstance(one.users, Binomial) or one.population is not None:
        raise ValueError(
            "users must be a fixed number who all take part if one sends several messages, got "
            f"users={one.users!r:.80}, population={one.population}, {given}"
        )
    if one.reduction == "example" or one.randomizer.interactive:
        raise ValueError(
            "messages_per_user must be 1 with reduction='example' and for interactive randomizers, "
            f"whose messages may depend on one another, got {given}"
        )
    if sent is not None and (one.others or one.colluding):
        raise ValueError(
            "messages counts honest messages of one randomizer: others must be empty and "
            f"colluding 0 with it, got {given}"
        )


def _leak(shuffler: Shuffler) -> str:
    """The theorem on a shuffler, as names of pairs end."""
    if shuffler.weights is not None:
        return "weights"
    return "exposure" if shuffler.batches is None and shuffler.minimum_batch is None else "batches"


def _check_shuffler(one: ShuffleRound) -> None:
    """Raise ValueError for imperfect shufflers of rounds that no theorem covers."""
    leak = one.shuffler
    if leak is None:
        return
    fixed = isinstance(one.users, int) and one.population is None and not one.others
    if not fixed or one.messages_per_user > 1 or one.messages is not None:
        raise ValueError(
            "shuffler must be None but for a fixed number of users who all take part, of one "
            f"randomizer and one message each, got {leak!r:.80}"
        )
    if one.reduction == "example" or one.variant == "tail":
        raise ValueError(f"shuffler must be None with {one.reduction!r}, got {leak!r:.80}")
    if leak.persistent and not leak.exposure:
        raise ValueError(f"exposure must be > 0 for a persistent shuffler, got {leak.exposure}")
    for name, held in (
        ("weights", leak.weights and len(leak.weights)),
        ("batches", leak.batches and sum(leak.batches)),
    ):
        if held is not None and held != one.users:
            raise ValueError(f"{name} must be for {one.users} users, got {held}")
    if leak.minimum_batch is not None and leak.minimum_batch > one.users:  # type: ignore[operator]
        raise ValueError(
            f"minimum_batch must be at most the {one.users} users, got {leak.minimum_batch}"
        )
