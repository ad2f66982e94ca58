"""Re-identification in a shuffled round of a randomizer, whatever the other users' inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffle_accountant import validation as validate
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.leakage.arguments import law, numbers
from shuffle_accountant.leakage.reidentification.success import Layers, checked_counts, layers
from shuffle_accountant.leakage.reidentification.targets import (
    Targets,
    checked_input,
    clones_bracket,
    message_laws,
    rounded,
    targets,
)
from shuffle_accountant.randomizers.base import FiniteRandomizer, LocalRandomizer

METHODS = ("blanket", "clones")


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
    was the truth in every small case that was enumerated, which is no theorem; for more guesses it
    need not be, and others who hold different inputs may be worse.

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


def _checked(
    randomizer: LocalRandomizer, users: int, guesses: int
) -> tuple[Targets[Any], int, int]:
    validate.instance(LocalRandomizer, randomizer=randomizer)  # type: ignore[type-abstract]
    if randomizer.adjacency is not Adjacency.REPLACE_ONE:
        raise ValueError(
            "randomizer must be one of which more is known than how it hides a null record, got "
            f"{validate.shown(randomizer)}"
        )
    return targets(randomizer), *checked_counts(users, guesses)


def _held(known: Targets[Any], target: object) -> tuple[Any, ...]:
    return known.worst if target is None else (known.checked(target),)


def _largest(brackets: list[Bracket], lower: float) -> Bracket:
    """The bracket of the largest of some numbers, given its lower end."""
    worst = max(brackets, key=lambda one: one.upper)
    return Bracket(lower=lower, upper=worst.upper, ledger=worst.ledger, reduction=worst.reduction)
