"""The privacy blanket: what all inputs share hides the target (Balle, Bell, Gascon, Nissim 2019).

The pair (R(x0), R(x1)) among n - 1 decoys that are draws from ``m(y) = min over x of R(x)(y)``, or
blank, dominates the round (proof: `docs/understand/soundness.md`). Adjacency: one user's value is
replaced; the profile is the largest over ordered pairs of inputs, which bounds both directions.
Bound: upper bound; no decomposition does better (Su et al. 2025). For k-ary randomized response it
is exactly the weak adversary of 'Numerical Accounting in the Shuffle Model', Theorem 15.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from shuffle_accountant.losses.alphabets.blanket import BlanketLoss
from shuffle_accountant.losses.alphabets.letters import MessagePair
from shuffle_accountant.losses.base import Effort, PrivacyLoss
from shuffle_accountant.losses.decoy_counts import Decoys, NumberOfClones
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.mixed_responses import NumberOfMixedResponses
from shuffle_accountant.numerics.rounding import Array, Bound, roundings
from shuffle_accountant.randomizers.base import ConcreteRandomizer, FiniteRandomizer, Mixture
from shuffle_accountant.randomizers.channel import ChannelRandomizer
from shuffle_accountant.randomizers.continuous import ContinuousRandomizer
from shuffle_accountant.reductions.base import DensitiesAmongDecoys, Reduction, TargetAmongDecoys
from shuffle_accountant.reductions.clones import clones

# Effort with which messages' probabilities are computed for a rough deviation.
_ROUGH = Effort(tail=1e-12, resolution=1e-3)


@dataclass(frozen=True)
class InputPair:
    """The target's inputs under X and X', as letters among decoys that are draws from a blanket."""

    randomizer: ConcreteRandomizer
    inputs: tuple[int, int]

    @property
    def reversed(self) -> InputPair:
        """The pair with the datasets exchanged."""
        return InputPair(self.randomizer, (self.inputs[1], self.inputs[0]))

    def letters(self, side: Bound, effort: Effort) -> MessagePair:
        """Letters that bound the pair on a side, with what is uncertain about them."""
        (first, second, shared), error = self.randomizer.letters(
            self.inputs, side, tail=effort.tail, resolution=effort.resolution
        )
        off = np.asarray(error) * (1.0 if side is Bound.PESSIMISTIC else -1.0)
        return _among_blanks(first * (1.0 + off), second * (1.0 - off), _blanket(shared, off))


def blanket(randomizer: ConcreteRandomizer, users: int) -> Reduction:
    """Reduce a round of ``users`` messages of a known randomizer to its blanket."""
    if randomizer.mixture is not None:
        return _response(randomizer.mixture, randomizer.eps0, users)
    if isinstance(randomizer, FiniteRandomizer):
        return _finite(randomizer, users)
    if isinstance(randomizer, ContinuousRandomizer):
        return _continuous(randomizer, users)
    raise ValueError(
        "reduction='blanket' needs a FiniteRandomizer or a ContinuousRandomizer, got "
        f"{type(randomizer).__name__}"
    )


def _response(mixture: Mixture, eps0: float, users: int) -> Reduction:
    """The decoys that answered at random, each of k values alike, and the blank."""
    k, gamma, truthful = mixture.categories, mixture.gamma, mixture.truthful
    single = gamma / k
    keep, other = truthful + single, gamma * ((k - 2) / k)
    p0, p1 = (keep, single, other, 0.0), (single, keep, other, 0.0)
    q = (single, single, other, truthful)
    if k == 2:  # for two values the blanket is their clones
        loss: PrivacyLoss = clones(eps0, users).loss
    elif gamma in (0.0, 1.0):
        loss = BinaryLoss(
            NumberOfClones.from_eps0(eps0, decoys=users - 1, rate=gamma, idle=truthful)
        )
    elif users * 2.0 * single <= 100.0 or eps0 < 0.01:
        # Where few random answers show one of the target's two values there are fewer counts of
        # random answers than histograms. For a small eps0, on which counts depend, the error of
        # messages' probabilities is much of their difference.
        others = (Decoys(users - 1, gamma, truthful),)
        loss = BinaryLoss(NumberOfMixedResponses(k, gamma, truthful, eps0, others))
    else:
        pair = MessagePair(np.array(p0), np.array(p1), np.array(q), eps0)
        loss = BlanketLoss((pair,), users, pair.deviation(users), eps0)
    return Reduction("blanket", TargetAmongDecoys(p0=p0, p1=p1, q=q, n=users), loss)


def _finite(randomizer: FiniteRandomizer, users: int) -> Reduction:
    pairs, blank = [], None
    if users > 1 and isinstance(randomizer, ChannelRandomizer):
        # rows add up to 1 but for their rounding, which may be far more than their minima leave
        blank = randomizer.blank_mass
    for inputs in randomizer.input_pairs():
        first, second, shared = randomizer.classes(inputs)
        pairs.append(_among_blanks(first, second, shared, randomizer.eps0, blank))
    worst = max(pairs, key=lambda pair: pair.spread)
    p0, p1, q = (tuple(law.tolist()) for law in (worst.p0, worst.p1, worst.q))
    decoys = TargetAmongDecoys(p0, p1, q, n=users)
    if len(pairs) == 1 and randomizer.symmetric:
        number = _binary(worst, users, randomizer.eps0)
        if number is not None:
            return Reduction("blanket", decoys, BinaryLoss(number))
    else:
        pairs = [ordered for pair in pairs for ordered in (pair, pair.reversed)]
    return Reduction("blanket", decoys, among_messages(tuple(dict.fromkeys(pairs)), users))


def among_messages(pairs: tuple[MessagePair, ...], users: int) -> BlanketLoss:
    """The loss of the worst of ordered pairs of inputs, closed under exchange."""
    deviation = max(pair.deviation(users) for pair in pairs)
    return BlanketLoss(pairs, users, deviation, max(pair.largest for pair in pairs))


def _continuous(randomizer: ContinuousRandomizer, users: int) -> Reduction:
    pairs = [InputPair(randomizer, inputs) for inputs in randomizer.input_pairs()]
    if not randomizer.symmetric:
        pairs = [ordered for pair in pairs for ordered in (pair, pair.reversed)]
    p0, p1 = (partial(randomizer.density, float(x)) for x in pairs[0].inputs)
    blank = 1.0 - randomizer.blanket_mass
    decoys = DensitiesAmongDecoys(p0, p1, lambda y: np.minimum(p0(y), p1(y)), blank, n=users)
    deviation = max(pair.letters(Bound.OPTIMISTIC, _ROUGH).deviation(users) for pair in pairs)
    loss = BlanketLoss(tuple(pairs), users, deviation, randomizer.eps0)
    return Reduction("blanket", decoys, loss)


def _among_blanks(
    p0: Array, p1: Array, blanket: Array, eps0: float = math.inf, blank: float | None = None
) -> MessagePair:
    """The pair among decoys that send a draw from the blanket or, with a probability, a blank.

    By default ``blank``, that probability, is 1 less the blanket's mass.
    """
    if blank is None:
        # rounded once, so that its relative error is that of the blanket's masses
        blank = max(math.fsum([1.0, *(-blanket).tolist()]), 0.0)
    q = np.append(blanket, blank)
    q /= max(math.fsum(q.tolist()), 1.0)
    return MessagePair(np.append(p0, 0.0), np.append(p1, 0.0), q, eps0)


def _blanket(shared: Array, off: Array) -> Array:
    """The blanket's masses, rounded by their relative error.

    A smaller blanket hides less: blanks can be turned into messages afterwards. A larger one must
    leave no less than nothing for the blank; if it cannot, there is all but no blank to begin with.
    """
    rounded = shared * (1.0 - off)
    return rounded if math.fsum(rounded.tolist()) <= 1.0 else shared


def _binary(pair: MessagePair, users: int, eps0: float) -> NumberOfClones | None:
    """The number of clones, if the letters are two mirrored ones and a blank: then they are clones.

    Probabilities computed from eps0 are off by a unit in their last place each, which for a small
    eps0 is much of their difference; eps0 itself is not.
    """
    heard = (pair.p0 > 0.0) | (pair.p1 > 0.0)
    p0, p1, q = pair.p0[heard], pair.p1[heard], pair.q[heard]
    if p0.size != 2 or p0[0] != p1[1] or p0[1] != p1[0] or q[0] != q[1] or q[0] == 0.0:
        return None
    rate, idle = 2.0 * float(q[0]), float(pair.q[~heard].sum())
    number = NumberOfClones.from_chances(
        float(p0.max()), float(p0.min()), decoys=users - 1, rate=rate, idle=idle
    )
    if 0.0 < abs(number.largest - eps0) <= roundings(64) * (1.0 + eps0):
        return NumberOfClones.from_eps0(eps0, decoys=users - 1, rate=number.rate, idle=number.idle)
    return number
