"""The choice of the theorem that a round is reduced by."""

from __future__ import annotations

import math

from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.losses.base import DominatingPair
from shuffle_accountant.randomizers.base import ConcreteRandomizer, LocalRandomizer
from shuffle_accountant.reductions.base import subsampled
from shuffle_accountant.reductions.blanket import blanket
from shuffle_accountant.reductions.clones import VARIANTS, clones, null_clones, null_law, strong
from shuffle_accountant.reductions.dataset import example

REDUCTIONS = ("auto", "clones", "blanket", "strong", "example", "null clones", "null law")


def check(randomizer: LocalRandomizer, reduction: str, variant: str | None, sampled: bool) -> None:
    """Refuse a round that no theorem covers.

    Raises:
        ValueError: in one line, why.
    """
    kind = type(randomizer).__name__
    if variant is not None and reduction != "strong":
        raise ValueError(f"variant is for reduction='strong' only, got reduction={reduction!r}")
    if reduction == "strong" and randomizer.mixture is None:
        raise ValueError(
            "reduction='strong' needs a RandomizedResponse, whose users either tell the truth or "
            f"answer at random, which is what that adversary sees; got {kind}"
        )
    if reduction == "blanket" and not isinstance(randomizer, ConcreteRandomizer):
        raise ValueError(
            f"reduction='blanket' needs a randomizer whose law is known, got {kind}: use 'clones'"
        )
    if reduction == "clones" and not math.isfinite(randomizer.eps0):
        raise ValueError(
            f"reduction='clones' needs a randomizer with a finite eps0, got {kind} with eps0=inf"
        )
    if reduction == "example" and randomizer.normal_noise is None:
        raise ValueError(f"reduction='example' needs a GaussianRandomizer, got {kind}")
    vectors = randomizer.noisy_vectors is not None
    if reduction == "null clones" and not vectors:
        raise ValueError(f"reduction='null clones' needs GaussianVectors, got {kind}")
    if vectors and reduction not in ("auto", "null clones"):
        raise ValueError(f"{kind} needs reduction='null clones', got {reduction!r}")
    if vectors and sampled:
        raise ValueError(
            f"{kind} needs population=None: no theorem amplifies null clones by sampling"
        )
    null = randomizer.adjacency is Adjacency.ZERO_OUT and not vectors
    if reduction == "null law" and not null:
        raise ValueError(
            f"reduction='null law' needs a randomizer of adjacency {Adjacency.ZERO_OUT.named}, "
            f"got {kind}"
        )
    if null and reduction not in ("auto", "null law"):
        raise ValueError(
            f"{kind} of adjacency {Adjacency.ZERO_OUT.named} needs reduction='null law', "
            f"got {reduction!r}"
        )
    if null and sampled:
        raise ValueError(
            f"{kind} of adjacency {Adjacency.ZERO_OUT.named} needs all users to take part: if the "
            "target is not drawn another user is, which no theorem about null records covers"
        )
    if variant == "tail" and sampled:
        raise ValueError(
            "variant='tail' is no hockey-stick divergence, so no theorem amplifies it by sampling: "
            "leave population out or use variant='exact'"
        )


def reduce(
    randomizer: LocalRandomizer, users: int, population: int, reduction: str, variant: str | None
) -> DominatingPair:
    """The dominating pair by the theorem asked for, or by the tightest that applies.

    The blanket is never above the clones: by eps0-LDP ``m(y) >= e^-eps0 max(R(x0), R(x1))(y)``, and
    the clones bound every randomizer with that smaller blanket (see `reductions.clones`).
    """
    if reduction == "example" and randomizer.normal_noise is not None:
        return example(randomizer.normal_noise, users, population)
    if randomizer.noisy_vectors is not None:
        return null_clones(randomizer.noisy_vectors, users)
    if randomizer.adjacency is Adjacency.ZERO_OUT:
        return null_law(randomizer.eps0, randomizer.delta0, users)
    if reduction == "strong" and randomizer.mixture is not None:
        inner = strong(randomizer.mixture, users, variant or VARIANTS[0])
    elif reduction == "clones" or not isinstance(randomizer, ConcreteRandomizer):
        inner = clones(randomizer.eps0, users, interactive=randomizer.interactive)
    else:
        inner = blanket(randomizer, users)
    return subsampled(inner, users, population)


def theorem(randomizer: LocalRandomizer, reduction: str, variant: str | None) -> str:
    """The name of what `reduce` returns, without reducing anything; that of a sample's has more."""
    if reduction == "example" and randomizer.normal_noise is not None:
        return "gaussian example"
    if randomizer.noisy_vectors is not None:
        return "null clones"
    if randomizer.adjacency is Adjacency.ZERO_OUT:
        return "null law"
    if reduction == "strong" and randomizer.mixture is not None:
        return f"strong, {variant or VARIANTS[0]}"
    if reduction == "clones" or not isinstance(randomizer, ConcreteRandomizer):
        return "interactive clones" if randomizer.interactive else "clones"
    return "blanket"
