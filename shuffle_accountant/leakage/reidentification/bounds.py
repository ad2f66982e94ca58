"""Re-identification in a shuffled round of a randomizer, whatever the other users' inputs.

A target's input is fixed or drawn from a known law: a user whose input is drawn from V sends a
message of distribution ``R*(V) = sum_x V(x) R(x)``. The blanket of R* is that of R, for no mixture
of rows is below their least entry.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket, ErrorLedger
from shuffle_accountant.leakage.arguments import law, numbers
from shuffle_accountant.leakage.reidentification.success import (
    Layers,
    checked_counts,
    clones_psi,
    hits_error,
    layers,
    success_from_tails,
)
from shuffle_accountant.numerics.rounding import (
    Array,
    exponential,
    pairwise_sum,
    product,
    roundings,
)
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer
from shuffle_accountant.randomizers.continuous import ContinuousRandomizer
from shuffle_accountant.randomizers.randomized_response import RandomizedResponse

METHODS = ("blanket", "clones")

# Most inputs m of a frequency oracle: its messages form 2^m classes, by their bits at these inputs.
_MOST_BITS = 15
# What a randomizer computes of its parameters is good to a few units in the last place.
_OWN_ERROR = pairwise_sum(own=8)
_LARGEST_LOG = math.log(sys.float_info.max)


class Input(NamedTuple):
    """A distribution of inputs: those that have a positive chance, and the chances, of sum one."""

    values: tuple[int, ...]
    chances: tuple[float, ...]


def checked_input(inputs: int, **named: int | ArrayLike) -> Input:
    """The one named argument: an input 0 … ``inputs`` - 1, or a distribution of them."""
    ((name, value),) = named.items()
    try:
        dimensions = np.ndim(value)
    except ValueError:  # nested lists of different lengths, which are no distribution
        dimensions = 1
    if dimensions == 0:
        return Input((validate.integer(minimum=0, maximum=inputs - 1, **{name: value}),), (1.0,))
    chances = law(**{name: value})
    if chances.size != inputs:
        raise ValueError(
            f"{name} must have one chance for each of {inputs} inputs, got {chances.size}"
        )
    held = np.flatnonzero(chances)
    return Input(tuple(held.tolist()), tuple(chances[held].tolist()))


def message_laws(randomizer: FiniteRandomizer, *inputs: Input) -> tuple[Array, Array]:
    """Laws of the messages of users with these inputs, shape (inputs, messages), and the blanket.

    Messages are classes of messages that these inputs and the blanket do not distinguish.
    """
    held = tuple(dict.fromkeys(x for one in inputs for x in one.values))
    place = {x: i for i, x in enumerate(held)}
    chances = np.zeros((len(inputs), len(held)))
    for row, one in zip(chances, inputs, strict=True):
        row[[place[x] for x in one.values]] = one.chances
    mixture = randomizer.mixture
    if mixture is not None:  # every input that is held is a message, all others are one
        blanket = np.full(len(held) + 1, mixture.lie_probability)
        blanket[-1] = mixture.gamma * ((mixture.categories - len(held)) / mixture.categories)
        return mixture.truthful * np.pad(chances, ((0, 0), (0, 1))) + blanket, blanket
    if randomizer.classes_double and len(held) > _MOST_BITS:
        raise ValueError(
            f"target and others must hold at most {_MOST_BITS} inputs with a positive chance "
            f"between them for {type(randomizer).__name__}, got {len(held)}"
        )
    classes = randomizer.classes(held)
    return chances @ classes[:-1], classes[-1]


def rounded(value: float, error: float, name: str) -> Bracket:
    """A probability computed with a relative error, as the bracket that it stands for."""
    lower, upper = min(value * (1.0 - error), 1.0), min(value * (1.0 + error), 1.0)
    ledger = ErrorLedger(round_off=upper - lower)
    return Bracket(lower=lower, upper=upper, ledger=ledger, reduction=name)


def clones_bracket(log_ratio: float, users: int, guesses: int) -> Bracket:
    """Psi of the clones, given the logarithm of the largest ratio; 1 where that is infinite."""
    if log_ratio == math.inf:
        return Bracket(lower=1.0, upper=1.0, reduction="clones")
    value = clones_psi(math.exp(-log_ratio), users=users, guesses=guesses)
    # above 800 e^-x, and what n clones hide, are zero to a double
    exponent = min(log_ratio, 800.0)
    error = product(_OWN_ERROR, exponential(roundings(4) * exponent), hits_error(guesses))
    return rounded(value, error, "clones")


class Targets:
    """Targets of a randomizer of which only eps0 is known, and what all kinds of targets can do.

    All inputs are alike, and are None. The data of an interactive randomizer are shuffled before it
    runs. That changes nothing here: given which positions hold clones of the target, all of them
    are equally likely to be its own.
    """

    # one of these inputs is the worst
    worst: tuple[Any, ...] = (None,)

    def __init__(self, randomizer: LocalRandomizer) -> None:
        self._eps0 = randomizer.eps0

    def checked(self, target: object) -> Any:
        """A target as its user names it, if there is such a one."""
        raise ValueError(
            f"target must be None for a randomizer of which only eps0 is known, got "
            f"{validate.shown(target)}"
        )

    def log_ratio(self, target: Any) -> float:
        """Logarithm (nats) of the largest ratio of the target's distribution to the common part."""
        return self._eps0

    def ratio(self, target: Any) -> float:
        """The largest ratio itself, inf where it is too large for a double."""
        log_ratio = self.log_ratio(target)
        return math.exp(log_ratio) if log_ratio < _LARGEST_LOG else math.inf

    def blanket(self, target: Any, users: int, guesses: int) -> Bracket:
        """Bracket of psi for the largest common part: an upper bound for all datasets.

        Here all that must be common is what the clones take.
        """
        return clones_bracket(self._eps0, users, guesses)

    def attained(self, target: Any, users: int, guesses: int) -> float:
        """Success probability, at least, of datasets in which all others hold one input.

        Binary randomized response is one of these randomizers.
        """
        response = _FiniteTargets(RandomizedResponse(categories=2, eps0=self._eps0))
        return response.attained(response.worst[0], users, guesses)


class _FiniteTargets(Targets):
    def __init__(self, randomizer: FiniteRandomizer) -> None:
        self._randomizer = randomizer
        # every input looks like one of these: each is in a pair, and these pairs stand for all
        inputs = {x for pair in randomizer.input_pairs() for x in pair}
        self.worst = tuple(Input((x,), (1.0,)) for x in sorted(inputs))

    def checked(self, target: object) -> Input:
        return checked_input(self._randomizer.inputs, target=target)  # type: ignore[arg-type]

    def _sent(self, target: Input) -> tuple[Array, Array]:
        """Chances of the messages that the target sends, its own and the common ones."""
        (own,), common = message_laws(self._randomizer, target)
        return own[own > 0.0], common[own > 0.0]

    def log_ratio(self, target: Input) -> float:
        own, common = self._sent(target)
        with np.errstate(divide="ignore"):  # the ratio to nothing is infinite
            return max(float(np.max(np.log(own) - np.log(common))), 0.0)

    def ratio(self, target: Input) -> float:
        own, common = self._sent(target)
        with np.errstate(divide="ignore", over="ignore"):
            return max(float(np.max(own / common)), 1.0)

    def blanket(self, target: Input, users: int, guesses: int) -> Bracket:
        (own,), common = message_laws(self._randomizer, target)
        value = layers(own, common).success(users, guesses)
        return rounded(value, Layers.error(guesses) + _OWN_ERROR, "blanket")

    def attained(self, target: Input, users: int, guesses: int) -> float:
        best = guesses / users
        for x in self._randomizer.others(target.values):
            (own, other), _ = message_laws(self._randomizer, target, Input((x,), (1.0,)))
            best = max(best, layers(own, other).success(users, guesses))
        return best * (1.0 - Layers.error(guesses) - _OWN_ERROR)


class _ContinuousTargets(Targets):
    def __init__(self, randomizer: ContinuousRandomizer) -> None:
        self._randomizer, self.worst = randomizer, randomizer.worst_inputs

    def checked(self, target: object) -> float:
        return self._randomizer.checked_input(target=target)

    def log_ratio(self, target: float) -> float:
        return self._randomizer.log_ratio(target)

    def blanket(self, target: float, users: int, guesses: int) -> Bracket:
        tails = self._randomizer.ratio_tails(target, None)
        return success_from_tails(tails, users, guesses, "blanket")

    def attained(self, target: float, users: int, guesses: int) -> float:
        """All others hold the input that is further away."""
        other = 0.0 if target >= 0.5 else 1.0
        tails = self._randomizer.ratio_tails(target, other, unresolved=guesses / users)
        return success_from_tails(tails, users, guesses, "one dataset").lower


def bound(
    randomizer: LocalRandomizer,
    *,
    users: int,
    target: float | ArrayLike | None = None,
    method: str = "blanket",
    guesses: int = 1,
) -> Bracket:
    """Upper bound on the chance to name the target's message, for all inputs of the other users.

    All n users apply the randomizer to their inputs, the messages are shuffled, and an adversary
    who knows every input names k positions. The bound is the success probability psi against one
    to whom it is also revealed which of the others' messages were not draws from the common part
    (Theorems 6 to 9 of 'Bayesian Advantage of Re-Identification Attack in the Shuffle Model', in
    closed form; see `psi`). It also holds when inputs are drawn from known distributions.

    Args:
        randomizer: what every user applies. Of a `GeneralRandomizer` only the clones are common to
            all inputs, whatever the method. With ``interactive=True`` the inputs are shuffled
            before the randomizers run, and the position in that order is what is named.
        target: the target's input: an integer for finite randomizers, a number in [0, 1] for
            Laplace and Gaussian noise (whose blanket is that of the inputs 0 and 1); or, for finite
            ones, the distribution that it is drawn from, shape (inputs,). None is the worst input.
        method: "blanket", the largest common part, which is the best; or "clones", the largest
            multiple of the target's own distribution: ``(M/n) (1 - (1 - 1/M)^n)`` for one guess, M
            of `sup_ratio`, and 1 if that is infinite, as for Gaussian noise.

    Returns:
        Bracket of psi, a float: its upper end, no smaller than the exact value of psi. The ledger
        holds round-off, and for noise the cells of the ratio.
    """
    known, users, guesses = _checked(randomizer, users, guesses)
    method = validate.choice(METHODS, method=method)
    held = _held(known, target)
    if method == "clones":
        return clones_bracket(max(known.log_ratio(x) for x in held), users, guesses)
    above = [known.blanket(x, users, guesses) for x in held]
    return _largest(above, max(one.lower for one in above))


def bracket(
    randomizer: LocalRandomizer,
    *,
    users: int,
    target: float | ArrayLike | None = None,
    guesses: int = 1,
) -> Bracket:
    """Both ends of the worst success probability over the other users' inputs.

    The upper end is that of `bound`. The lower end is attained, by a dataset in which all other
    users hold one same input: ``max over x of beta_n(R(target), R(x))``. The gap between them is
    that of the theorems, not of arithmetic, and is not in the ledger. For one guess the lower end
    was the truth in every small case that was enumerated; for more, others who hold different
    inputs may be worse.

    Args:
        randomizer: as in `bound`. The lower end of a `GeneralRandomizer` is attained by binary
            randomized response, the one with finite `eps0` of which nothing else is known.
        target: as in `bound`; None is the worst input.
    """
    known, users, guesses = _checked(randomizer, users, guesses)
    held = _held(known, target)
    below = max(known.attained(x, users, guesses) for x in held)
    return _largest([known.blanket(x, users, guesses) for x in held], below)


def sup_ratio(randomizer: LocalRandomizer, *, target: float | ArrayLike | None = None) -> float:
    """Theorem 10's ``M = sup_y R(target)(y) / inf_x R(x)(y)``.

    ``n beta_n <= M`` for every n, and it tends to M: no smaller factor holds for all n. The bound
    ``(M/n) (1 - (1 - gamma)^n)`` with gamma the blanket's mass lies between it and `bound`.

    Args:
        target: as in `bound`; None is the worst input, for which M is ``e^eps0``.

    Returns:
        M >= 1; inf for Gaussian noise, and where it is too large for a double.
    """
    known, _, _ = _checked(randomizer, 1, 1)
    return max(known.ratio(x) for x in _held(known, target))


def bound_among(
    p: ArrayLike, others: ArrayLike, *, users: int | None = None, guesses: int = 1
) -> Bracket:
    """Upper bound for a target among users whose messages follow different known distributions.

    The common part is taken over the other users only: the least of their distributions, message by
    message.

    Args:
        others: the others' distributions, one per row, shape (distributions, messages).
        users: messages n, the target's included, if several users share a distribution; in [2,
            2^53], by default one more than the rows.
    """
    target = law(p=p)
    table = numbers(others=others)
    if table.ndim != 2 or not table.size or table.shape[1] != target.size:
        raise ValueError(
            f"others must have rows of {target.size} letters, as p has; got shape {table.shape}"
        )
    rows = [law(others=row) for row in table]
    users, guesses = checked_counts(len(rows) + 1 if users is None else users, guesses)
    value = layers(target, np.min(rows, axis=0)).success(users, guesses)
    return rounded(value, Layers.error(guesses), "blanket")


def success_in_population(
    randomizer: FiniteRandomizer,
    *,
    users: int,
    target: int | ArrayLike,
    others: ArrayLike,
    guesses: int = 1,
) -> float:
    """Success probability when the other users' inputs are independent draws from a known law.

    Then the decoys are independent with one distribution, and the value is exact, to round-off.

    Args:
        target: the target's input, or the distribution it is drawn from, shape (inputs,).
        others: the distribution of each other user's input, shape (inputs,).
    """
    validate.instance(FiniteRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    users, guesses = checked_counts(users, guesses)
    held = checked_input(randomizer.inputs, target=target)
    (own, other), _ = message_laws(
        randomizer, held, checked_input(randomizer.inputs, others=others)
    )
    return layers(own, other).success(users, guesses)


def _checked(randomizer: LocalRandomizer, users: int, guesses: int) -> tuple[Targets, int, int]:
    validate.instance(LocalRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    if randomizer.adjacency is not Adjacency.REPLACE_ONE:
        raise ValueError(
            "randomizer must be one of which more is known than how it hides a null record, got "
            f"{validate.shown(randomizer)}"
        )
    users, guesses = checked_counts(users, guesses)
    if isinstance(randomizer, FiniteRandomizer):
        return _FiniteTargets(randomizer), users, guesses
    if isinstance(randomizer, ContinuousRandomizer):
        return _ContinuousTargets(randomizer), users, guesses
    return Targets(randomizer), users, guesses


def _held(known: Targets, target: object) -> tuple[Any, ...]:
    return known.worst if target is None else (known.checked(target),)


def _largest(brackets: list[Bracket], lower: float) -> Bracket:
    """The bracket of the largest of some numbers, given its lower end."""
    worst = max(brackets, key=lambda one: one.upper)
    return Bracket(lower=lower, upper=worst.upper, ledger=worst.ledger, reduction=worst.reduction)
