"""Crowds whose users do not all apply one randomizer, or are partly known to the adversary.

Fix a law w. The target's message is hidden among those of the others that are draws from w, given
who is: user i is one with chance ``p_i = min over x, y of R_x^i(y) / w(y)``, so their number J is a
sum of binomial ones, one for each group. Telling who is not a draw, and what these sent, can only
help the adversary; so the pair (R(x0), R(x1)) among J draws of w, J revealed, dominates the round.
A user the adversary knows has p_i = 0, and which ones these are is not known beforehand, so the
bound leaves out those with the largest p_i. Adjacency: one user's value is replaced, of one who
applies the target's randomizer. Bound: an upper bound; for k-ary randomized response, whose blanket
is uniform whatever its level, w is exact in the sense of the blanket.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.alphabets.random_users import RandomUsersLoss, Sample
from shuffle_accountant.losses.alphabets.settings import MIXTURES
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.combined.mixture import MixtureLoss, Part
from shuffle_accountant.losses.decoy_counts import Decoys, average, count_law, joined
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.mixed_responses import NumberOfMixedResponses
from shuffle_accountant.numerics.rounding import Array, Bound
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.channel import ChannelRandomizer
from shuffle_accountant.reductions.base import Pair
from shuffle_accountant.reductions.blanket import among_messages
from shuffle_accountant.reductions.clones import clones

Groups = tuple[tuple[LocalRandomizer, int], ...]
"""The other groups: their randomizers, and how many users apply each."""

# Matrices of k-ary randomized response up to this many values go together with other matrices.
_MOST_VALUES = 64


def crowd(randomizer: LocalRandomizer, users: int, others: Groups, colluding: int) -> Pair:
    """Reduce a round of a mixed crowd, for a target among the ``users`` of ``randomizer``.

    Raises:
        ValueError: no law that all randomizers share a part of is known.
    """
    messages_in_common(randomizer, others)
    every = [(randomizer, users - 1), *others]
    mixtures = [(one.mixture, count) for one, count in every if one.mixture is not None]
    losses: list[PrivacyLoss] = []
    if len(mixtures) < len(every):
        for pairs, chances in _candidates(every):
            draws = _AmongDraws(pairs, _honest(chances, colluding))
            losses.append(RandomUsersLoss(pairs, draws, MixtureLoss(draws), MIXTURES.most_terms[1]))
    elif (own := mixtures[0][0]).truthful == 0.0:
        losses.append(clones(0.0, 1).loss)
    else:
        groups = [Decoys(count, one.gamma, one.truthful) for one, count in mixtures]
        mixed = own.categories, own.gamma, own.truthful, randomizer.eps0, _honest(groups, colluding)
        losses.append(BinaryLoss(NumberOfMixedResponses(*mixed)))
    # each is a bound; the smallest spread is the best of them
    loss = min(losses, key=lambda loss: loss.deviation)
    return Pair("blanket, mixed crowd", loss, two_sided=True)


def messages_in_common(randomizer: LocalRandomizer, others: Groups) -> None:
    """Raise ValueError for randomizers of which no law of messages is known that all share."""
    for other, _ in others:
        if _shape(other) is None or _shape(other) != _shape(randomizer):
            first, second = type(randomizer).__name__, type(other).__name__
            raise ValueError(
                f"others must send messages of a law shared with {first}'s, got {second}: known "
                "are randomized response of one number of values, channel matrices of one number "
                "of messages, and subset selection of one size"
            )


def _shape(randomizer: LocalRandomizer) -> tuple[object, ...] | None:
    """Key that must agree for messages to share a law; None if no such law is known."""
    if randomizer.mixture is not None:
        return "messages", randomizer.mixture.categories
    if isinstance(randomizer, ChannelRandomizer):
        return "messages", randomizer.channel.shape[1]
    size = getattr(randomizer, "size", None)
    if randomizer.kind == "subset-selection" and size is not None:
        return "subsets", randomizer.values, size
    return None


def _honest(groups: list[Decoys], colluding: int) -> tuple[Decoys, ...]:
    """The groups without ``colluding`` users: those with the largest chances are removed first."""
    left, found = colluding, []
    for group in sorted(groups, key=lambda group: -group.chance):
        known = min(left, group.users)
        left -= known
        if group.users > known:
            found.append(Decoys(group.users - known, group.chance, group.idle))
    return tuple(found)


def _candidates(
    every: list[tuple[LocalRandomizer, int]],
) -> Iterator[tuple[tuple[MessagePair, ...], list[Decoys]]]:
    """Pairs of the target's inputs among draws of a law, and each group's chance to be one."""
    target = every[0][0]
    if target.kind == "subset-selection":
        assert isinstance(target, FiniteRandomizer)  # whoever calls has looked
        first, second, shared = target.classes((0, 1))
        law = shared / math.fsum(shared.tolist())
        pair = MessagePair(first, second, law, target.eps0)
        masses = [(n, one.blanket_mass) for one, n in every if isinstance(one, FiniteRandomizer)]
        yield (pair, pair.reversed), [_decoys(*one) for one in masses]
        return
    matrices = [_matrix(one) for one, _ in every]
    for matrix in {m.tobytes(): m for m in matrices}.values():
        least = matrix.min(axis=0)
        if least.sum() <= 0.0:
            continue
        law = least / math.fsum(least.tolist())
        held = law > 0.0
        chances = [min(float(np.min(rows[:, held] / law[held])), 1.0) for rows in matrices]
        groups = [_decoys(n, chance) for chance, (_, n) in zip(chances, every, strict=True)]
        yield _pairs(matrices[0], law, target.eps0), groups
    if all(matrix.min(axis=0).sum() <= 0.0 for matrix in matrices):
        law = np.full(matrices[0].shape[1], 1.0 / matrices[0].shape[1])
        yield _pairs(matrices[0], law, target.eps0), [_decoys(count, 0.0) for _, count in every]


def _pairs(matrix: Array, law: Array, eps0: float) -> tuple[MessagePair, ...]:
    rows = range(len(matrix))
    pairs = (MessagePair(matrix[a], matrix[b], law, eps0) for a in rows for b in rows if a != b)
    return tuple(dict.fromkeys(pairs))


def _decoys(count: int, chance: float) -> Decoys:
    return Decoys(count, chance, 1.0 - chance)


def _matrix(randomizer: LocalRandomizer) -> Array:
    """The channel, message by message."""
    mixture = randomizer.mixture
    if mixture is None:
        assert isinstance(randomizer, ChannelRandomizer)  # whoever calls has looked
        return randomizer.channel
    if mixture.categories > _MOST_VALUES:
        raise ValueError(
            "others must be randomized response as well for one of more than "
            f"{_MOST_VALUES} values, got {mixture.categories}"
        )
    found = np.full((mixture.categories, mixture.categories), mixture.lie_probability)
    np.fill_diagonal(found, mixture.keep_probability)
    return found


@dataclass(frozen=True)
class _AmongDraws:
    """The target's pairs of inputs among a random number of draws of a law, a `PartSource`."""

    pairs: tuple[MessagePair, ...]  # ordered, closed under exchange
    groups: tuple[Decoys, ...]  # the others, with their chances to be draws

    @property
    def largest(self) -> float:
        return max(pair.largest for pair in self.pairs)

    @property
    def deviation(self) -> float:
        users = 1 + math.floor(average(self.groups))
        return max(pair.deviation(users) for pair in self.pairs)

    @property
    def expected(self) -> float:
        return 1.0 + average(self.groups)

    def parts(self, side: Bound, effort: Effort) -> tuple[tuple[Part, ...], float]:
        samples, missing = self.samples(side, effort)
        parts = (Part(one.weight, among_messages(self.pairs, one.users)) for one in samples)
        return tuple(parts), missing

    def samples(self, side: Bound, effort: Effort) -> tuple[tuple[Sample, ...], float]:
        """One for each block of numbers of draws, fewer of which hide less; the target is one."""
        moved = tuple(group.moved(side) for group in self.groups)
        law = count_law(moved, side, tail=0.5 * effort.tail, resolution=effort.resolution)
        resolution = max(effort.resolution, 1e-6)
        while law.low.size > 160:  # blocks in the mixture, each with a loss of its own
            resolution *= 1.5
            law = joined(law, side, resolution)
        numbers = law.low if side is Bound.PESSIMISTIC else law.high
        blocks = zip(law.weight.tolist(), numbers.tolist(), strict=True)
        return tuple(Sample(weight, int(n) + 1, 1.0) for weight, n in blocks), law.missing
