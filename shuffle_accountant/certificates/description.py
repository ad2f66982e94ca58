"""Dominating pairs of the rounds of a protocol, as a certificate describes it.

The parameters of every pair are computed anew, in balls, from the numbers that describe the
deployment: ε0, users, categories, noise. Which theorem leads to which pair is in the modules of the
pairs, and is what whoever reads a certificate has to believe.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from flint import arb, fmpq

from shuffle_accountant.certificates import allocated, profiles
from shuffle_accountant.certificates.balls import at_least, exact
from shuffle_accountant.certificates.binary_target import BinaryTarget
from shuffle_accountant.certificates.composition import LossTable
from shuffle_accountant.certificates.letters import LettersAmongDecoys
from shuffle_accountant.certificates.profiles import Target
from shuffle_accountant.certificates.thresholds import Thresholded
from shuffle_accountant.certificates.work import BINOMIAL, EXP, Work

REPLACE_ONE = "replace-one"
# Most entries of a channel.
_MOST_ENTRIES = 4096
# Units of work, and bytes, of a message of a pair of a channel's inputs.
_EACH_LETTER, _BYTES_PER_LETTER = 40.0, 500.0
# With less noise ratios are up to e^300 and more, and sums of them take minutes.
_LEAST_NOISE = 0.1
# Kinds whose messages say yes or no to each category.
_BITS = ("hadamard-response", "rappor", "local-hashing", "subset-selection")
# Most outcomes of an epoch of pure steps that are listed.
_MOST_LISTED = 1 << 16

State = Mapping[str, Any]


class UnsupportedError(ValueError):
    """A description with two fields that contradict each other, or one that no theorem covers."""


@dataclass(frozen=True)
class Part:
    """A dominating pair of a protocol's rounds, composed ``count`` times.

    Its exact profile is given in each order of the datasets; of a symmetric pair, in one.
    """

    theorem: str
    adjacency: str
    count: int
    orders: tuple[profiles.Profile, ...]


def parts_of(protocol: State) -> list[Part]:
    """The pairs of a protocol's rounds, in their order; balls are of the working precision.

    Raises:
        UnsupportedError: two fields that contradict each other, or a round that is not covered.
    """
    parts = [
        replace(part, count=part.count * entry["count"])
        for entry in protocol["rounds"]
        for part in _PARTS.get(entry["round"].get("kind"), _shuffle)(entry["round"])
    ]
    kinds = {part.adjacency for part in parts}
    if len(kinds) > 1 or protocol["adjacency"] != next(iter(kinds), None):
        raise UnsupportedError("adjacency must be that of all rounds")
    return parts


def reading_work(protocol: State) -> Work:
    """Work and memory of `parts_of`, from sizes alone: pairs of a channel's inputs, products."""
    work = Work()
    for entry in protocol["rounds"]:
        state = entry["round"]
        work += Work(500.0)
        if state.get("kind") == "allocation":
            work += Work(2.0 * state["passes"] * (BINOMIAL + 3.0 * EXP))
        elif "randomizer" in state and state["randomizer"]["kind"] == "discrete":
            rows = state["randomizer"]["channel"]
            letters = float(len(rows)) * (len(rows) - 1) * (len(rows[0]) + 1)
            work += Work(_EACH_LETTER * letters, _BYTES_PER_LETTER * letters)
    return work


def _shuffle(state: State) -> list[Part]:
    users, population, randomizer = state["users"], state["population"], state["randomizer"]
    population = users if population is None else population
    if population < users:
        raise UnsupportedError(f"population must be at least users, got {population} < {users}")
    # before a theorem is chosen, which may need no more than eps0
    _check_together(randomizer)
    several, leak = state.get("messages_per_user", 1), state.get("shuffler")
    # of as many messages, each of the target's is hidden among its share of all
    block = state.get("messages", users * several) // several
    if block < 1 or (population > users and (block, several, leak) != (users, 1, None)):
        raise UnsupportedError(
            "messages must be at least messages_per_user, and population be null where either is "
            f"given or the shuffler leaks, got {several} of {state.get('messages')}"
        )
    if randomizer.get("interactive") and ("messages" in state or several > 1):
        # blocks of messages that may depend on one another are not independent
        raise UnsupportedError("interactive must be false where users send several messages")
    name, target, active = _target(randomizer, block, state["reduction"], state["variant"])
    if leak is not None:
        alone = _target(randomizer, 1, state["reduction"], state["variant"])[1]
        name, target = f"{name}, exposure", _exposed(target, alone, leak)
    if several > 1:
        name = f"{name}, blocks"
    if population > users:
        name = f"{name}, subsampled"
    return [
        Part(
            name, REPLACE_ONE, several, (profiles.Largest(target, active, arb(users) / population),)
        )
    ]


def _exposed(hidden: Sequence[Target], alone: Sequence[Target], leak: State) -> list[Target]:
    """Targets whose message is recognised with a probability, as those of decoys may be."""
    chance = exact(leak["exposure"])
    rest = at_least(0, 1 - chance)
    kept = [_thinned(one, rest) for one in hidden] if leak["everyone"] else hidden
    pairs = zip(kept, alone, strict=True)
    return [profiles.MixedTarget(((rest, one), (chance, recognised))) for one, recognised in pairs]


def _thinned(target: Target, share: arb) -> Target:
    """The pair among decoys that hide anything with this probability only."""
    if isinstance(target, BinaryTarget):
        return replace(target, rate=target.rate * share)
    assert isinstance(target, LettersAmongDecoys)
    # messages that the target never sends tell as little as one another
    silent = [q for a, b, q in target.letters if a == 0 == b]
    sent = [(a, b, q * share) for a, b, q in target.letters if not a == 0 == b]
    blank = (arb(0), arb(0), at_least(0, 1 - share) + share * sum(silent, arb(0)))
    return LettersAmongDecoys((*sent, blank), target.users)


def _thresholds(state: State) -> list[Part]:
    """One value's count; for another value of the target's, that one's the other way round too."""
    target = Thresholded(Fraction(state["probability"]), state["threshold"])
    orders = _both_orders(target, replace(target, exchanged=True))
    adjacency = state["adjacency"]
    both = (orders, orders[::-1]) if adjacency == REPLACE_ONE else (orders,)
    return [Part("sample and threshold", adjacency, 1, one) for one in both]


def _both_orders(forward: Target, backward: Target) -> tuple[profiles.Mirrored, profiles.Mirrored]:
    return profiles.Mirrored(forward, backward), profiles.Mirrored(backward, forward)


def _check_together(randomizer: State) -> None:
    """Check what the schema cannot: fields of a randomizer that limit each other."""
    if randomizer["kind"] == "subset-selection":
        size, k = randomizer["size"], randomizer["categories"]
        if size >= k:
            raise UnsupportedError(f"size must be less than categories, got {size} of {k}")
    if randomizer["kind"] == "discrete":
        rows = randomizer["channel"]
        if len({len(row) for row in rows}) > 1 or len(rows) * len(rows[0]) > _MOST_ENTRIES:
            raise UnsupportedError(
                f"channel must have rows of one length and at most {_MOST_ENTRIES} entries"
            )
        if any(abs(sum(map(Fraction, row), Fraction(-1))) > Fraction(1, 10**8) for row in rows):
            raise UnsupportedError("channel must have rows of sum 1")


def _target(
    randomizer: State, users: int, reduction: Any, variant: Any
) -> tuple[str, list[Target], arb]:
    """The theorem, the pairs of one target and how likely they tell anything."""
    kind = randomizer["kind"]
    if reduction == "strong" and kind == "randomized-response":
        return _strong(randomizer, users, variant)
    if variant is not None:
        raise UnsupportedError("variant is for the strong reduction only")
    if kind == "general" and reduction in ("auto", "clones"):
        return _clones(exact(randomizer["eps0"]), users, randomizer["interactive"])
    if reduction == "clones" and (kind == "randomized-response" or kind in _BITS):
        if "eps0" not in randomizer:
            raise UnsupportedError("eps0 must be given for the clones of randomized response")
        return _clones(exact(randomizer["eps0"]), users, False)
    if reduction not in ("auto", "blanket"):
        raise UnsupportedError(f"no certificate for {kind} with reduction {reduction!r}")
    if kind == "general":
        raise UnsupportedError(f"no certificate for a randomizer of kind {kind!r:.60}")
    make = {"randomized-response": _response, "discrete": _channel}.get(kind, _bits)
    return "blanket", make(randomizer, users), arb(1)


def _clones(eps0: arb, users: int, interactive: bool) -> tuple[str, list[Target], arb]:
    u, v = 1 / (1 + (-eps0).exp()), 1 / (1 + eps0.exp())
    rate = (-eps0).exp() if interactive else 2 * v
    name = "interactive clones" if interactive else "clones"
    return name, [BinaryTarget(u, v, rate, users - 1)], arb(1)


def _gamma(state: State) -> tuple[int, arb]:
    """Number of categories of randomized response, and the chance to answer at random."""
    given = "gamma" if "gamma" in state else "eps0"
    k, value = state["categories"], exact(state[given])
    gamma = value if given == "gamma" else k / (value.exp() + (k - 1))
    if not gamma > 0:
        raise UnsupportedError("no certificate for randomized response that never lies")
    return k, gamma


def _strong(state: State, users: int, variant: Any) -> tuple[str, list[Target], arb]:
    k, gamma = _gamma(state)
    if variant not in ("exact", "paper"):
        raise UnsupportedError("variant must be 'exact' or 'paper': 'tail' is no divergence")
    active = at_least(0, 1 - gamma) if variant == "exact" else arb(1)
    target = BinaryTarget(arb(1), arb(0), 2 * gamma / k, users - 1)
    return f"strong, {variant}", [target], active


def _response(state: State, users: int) -> list[Target]:
    k, gamma = _gamma(state)
    lie = gamma / k
    keep = 1 - gamma + lie
    if k == 2:
        return [BinaryTarget(keep, lie, gamma, users - 1)]
    other, zero = lie * (k - 2), arb(0)
    blank = at_least(0, 1 - gamma)
    letters = ((keep, lie, lie), (lie, keep, lie), (other, other, other), (zero, zero, blank))
    return [LettersAmongDecoys(letters, users)]


def _channel(state: State, users: int) -> list[Target]:
    """Every ordered pair of inputs, among draws from the columns' minima."""
    given = [[Fraction(entry) for entry in row] for row in state["channel"]]
    laws = [[x / total for x in row] for row, total in zip(given, map(sum, given), strict=True)]
    blanket = [min(column) for column in zip(*laws, strict=True)]
    rest = 1 - sum(blanket, Fraction(0))
    # places in the list of all numbers are compared faster than these
    numbers = sorted({Fraction(0), rest, *(x for law in laws for x in law)})
    place = {number: i for i, number in enumerate(numbers)}
    places = [[place[x] for x in law] for law in laws]
    least = [place[x] for x in blanket]
    blank = (place[Fraction(0)], place[Fraction(0)], place[rest])
    # pairs that differ in the names of messages alone are one
    pairs = {
        tuple(sorted([*zip(first, second, least, strict=True), blank]))
        for i, first in enumerate(places)
        for j, second in enumerate(places)
        if i != j
    }
    balls = [arb(fmpq(number.numerator, number.denominator)) for number in numbers]
    return [
        LettersAmongDecoys(tuple((balls[a], balls[b], balls[c]) for a, b, c in letters), users)
        for letters in sorted(pairs)
    ]


def _bits(state: State, users: int) -> list[Target]:
    """Messages that say yes or no to each category, by what they say to two of them."""
    k, eps0, unanimous = state["categories"], exact(state["eps0"]), arb(0)
    # under the distribution that no input shapes: chances of yes-yes, yes-no, no-yes, no-no, of the
    # first without messages that say yes to all; these, unanimous, tell as little as no to both.
    # A yes to one's own category multiplies the chance by the number high, a no by low
    if state["kind"] == "hadamard-response":
        quarter, unanimous = arb(1) / 4, arb(1) / (1 << k.bit_length())
        patterns = (at_least(0, quarter - unanimous), quarter, quarter, quarter)
        high, low = 2 / (1 + (-eps0).exp()), 2 / (1 + eps0.exp())
    elif state["kind"] == "subset-selection":
        size, places = state["size"], arb(k) * (k - 1)
        mixed, neither = arb(size * (k - size)) / places, arb((k - size) * (k - size - 1)) / places
        patterns = (arb(size * (size - 1)) / places, mixed, mixed, neither)
        low = k / (size * eps0.exp() + (k - size))
        high = low * eps0.exp()
    else:
        if state["kind"] == "rappor":
            high = (eps0 / 2).exp()
            yes, low = 1 / (1 + high), 1 / high
        else:
            buckets = state["buckets"]
            yes, low = arb(1) / buckets, buckets / (eps0.exp() + (buckets - 1))
            high = low * eps0.exp()
        no, unanimous = 1 - yes, yes**k
        both = at_least(0, yes**2 - unanimous) if k > 2 else arb(0)
        patterns = (both, yes * no, no * yes, no**2)
    rows = zip(patterns[:3], [(high, high), (high, low), (low, high)], strict=True)
    letters = [(chance * a, chance * b, chance * low) for chance, (a, b) in rows]
    same = patterns[3] * low + unanimous * high
    letters.append((same, same, same))
    blank = at_least(0, 1 - sum((q for _, _, q in letters), arb(0)))
    kept = [(a, b, q) for a, b, q in letters if a.upper() > 0]
    return [LettersAmongDecoys((*kept, (arb(0), arb(0), blank)), users)]


def _allocation(state: State) -> list[Part]:
    steps, selected, passes = state["steps"], state["selected"], state["passes"]
    released = steps if state["released"] is None else state["released"]
    for name, value in (("selected", selected), ("released", released)):
        if value > steps:
            raise UnsupportedError(f"{name} must be at most steps, got {value} > {steps}")
    if state["released"] is not None and (selected > 1 or passes > 1):
        raise UnsupportedError("released goes with one selected step and one pass only")
    target = _steps(state["mechanism"], passes, released)

    def part(name: str, t: int, s: int, count: int) -> Part:
        return Part(name, "zero-out", count, _both_orders(*target(t, s)))

    if selected == 1:
        return [part("allocation", steps, released, 1)]
    size, longer = divmod(steps, selected)
    blocks = [(size + 1, longer), (size, selected - longer)]
    return [part("allocation, blocks", t, t, count) for t, count in blocks if count]


def _steps(
    mechanism: State, passes: int, released: int
) -> Callable[[int, int], tuple[Target, Target]]:
    """A function that makes both orders of the pair of t steps, of which s are released."""
    excess: allocated.Excess
    pure = mechanism["kind"] == "pure"
    if pure:
        epsilon = exact(mechanism["epsilon"])
        excess = allocated.TwoValuedExcess(epsilon, passes)
        ends = (-passes * epsilon).exp(), (passes * epsilon).exp()
        variance = ((epsilon.exp() - 1 + (-epsilon).exp()) ** passes - 1).sqrt()
    else:
        noise = mechanism["noise_multiplier"]
        if released > 1 and noise < _LEAST_NOISE * math.sqrt(passes):
            raise UnsupportedError(
                f"noise_multiplier must be at least {_LEAST_NOISE} times the root of passes in a"
                f" certificate of several steps, got {noise!r}"
            )
        sigma = exact(noise) / arb(passes).sqrt()
        excess, ends = allocated.GaussianExcess(sigma), (arb(0), arb("inf"))
        variance = ((1 / sigma**2).exp() - 1).sqrt()
    deviation = min(float(variance.mid()), 1e100) if variance.is_finite() else 1e100

    def target(t: int, s: int) -> tuple[Target, Target]:
        # a binomial coefficient of two large numbers is large, and takes long
        few = min(s, passes) < _MOST_LISTED.bit_length()
        if pure and few and math.comb(s + passes, passes) <= _MOST_LISTED:
            # the pair of s of t steps: their ratio is a mean of s ratios ``1 - s/t + X s/t``
            part = arb(s) / t
            mean = [
                (q * (1 - part + x * part), q)
                for x, q in allocated.two_valued_ratios(epsilon, passes)
            ]
            listed = LettersAmongDecoys(tuple((p, q, q) for p, q in mean), s)
            return listed, LettersAmongDecoys(tuple((q, p, q) for p, q in mean), s)
        one = allocated.AllocatedSteps(excess, deviation, t, s, *ends)
        return one, replace(one, exchanged=True)

    return target


def _tables(state: State) -> list[Part]:
    # optimistic tables are part of the round, not of the claim
    names = ("remove", "add", "optimistic_remove", "optimistic_add")
    tables = {name: _table(name, state[name]) for name in names if state[name] is not None}
    remove, add = tables["remove"], tables.get("add")
    pairs = [(remove, remove)] if add is None else [(remove, add), (add, remove)]
    orders = tuple(profiles.Tabulated(own, other) for own, other in pairs)
    return [Part("pld", state["adjacency"], 1, orders)]


def _table(name: str, state: State) -> LossTable:
    losses, masses = state["losses"], state["probabilities"]
    if len(losses) != len(masses):
        raise UnsupportedError(f"{name} must have as many losses as probabilities")
    if any(a >= b for a, b in pairwise(losses)):
        raise UnsupportedError(f"losses of {name} must ascend")
    return LossTable(losses, masses, state["infinity_mass"])


_PARTS = {"pld": _tables, "sample-and-threshold": _thresholds, "allocation": _allocation}
