"""Settings of profiles of a target among decoys: accuracy, points, and limits of each way."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProfileSettings:
    """How a profile is tabulated. Losses and epsilons are in nats, deviations those of the loss.

    Attributes:
        far: size of a negative value that makes every sum with it negative.
        scarce: messages that decoys send with a smaller probability count as exposed (they give the
            target away): ratios to it would not fit into a double.
        plain: least probability whose quotients and products are normal doubles.
        summed: upper bound of the errors of sums over messages, relative to the sum of sizes.
        beyond: relative distance that no rounding of alpha reaches.
        width: bounds of a profile z deviations out may be this times the resolution times ``1 +
            z^2`` apart, relative to the profile: that changes epsilon by about that times the
            resolution.
        tail_share: share of the tail that bounds may be apart besides.
        unlisted: share of the tail that histograms which are not listed may have.
        step: distance of a profile's points near loss 0, in deviations times sqrt(resolution); the
            width of a bracket falls with its square.
        step_shared: the same where rounds of several sizes share a table.
        shared: numbers of messages within this ratio share a table.
        kinks: a profile with at most this many finite losses has points beside each.
        beside: distance of the points on both sides of a kink, relative to its loss.
        centre: points are evenly apart up to this many deviations; beyond, their distance grows
            with the square of the loss.
        bulk: a profile that ends within this many deviations is about that of a normal.
        tried: number of losses at which the profile is bounded at once when its end is searched.
    """

    far: float = 1e200
    scarce: float = 1e-150
    plain: float = 1e-290
    summed: float = 1e-10
    beyond: float = 2.0**-40
    width: float = 5.0
    tail_share: float = 0.1
    unlisted: float = 1e-2
    step: float = 1.4
    step_shared: float = 1.0
    shared: float = 1.25
    kinks: int = 1024
    beside: float = 2.0**-16
    centre: float = 2.5
    bulk: float = 12.0
    tried: int = 8


PROFILES = ProfileSettings()


@dataclass(frozen=True)
class MixtureSettings:
    """How profiles of random numbers of messages are tabulated, and when they are not.

    Attributes:
        fewest: with fewer expected messages, each number of messages has a loss of its own.
        fewest_unlisted: the same if their histograms can be listed, which is exact.
        coarsest: largest resolution of the tables of rare numbers of messages.
        ratio: numbers of messages within this ratio share the tables of one round.
        step: distance of points near loss 0, in deviations times sqrt(resolution).
        step_near: the same for a single epsilon.
        largest: largest epsilon that tables answer, nats.
        wide: the mixture's bounds may be this many resolutions apart, relative to it, times about
            one plus the square of the number of deviations.
        tails: or this many tails (`Effort.tail`): a composition's are at most a millionth of delta,
            over all of its rounds.
        rounded: upper bound of the rounding of alpha, relative to ``alpha - 1``.
        most_terms: number of terms up to which tables are quicker than a loss for each number of
            messages, for message spaces with two messages that count, and for all others.
    """

    fewest: float = 16.0
    fewest_unlisted: float = 64.0
    coarsest: float = 0.05
    ratio: float = 2.0
    step: float = 1.9
    step_near: float = 6.0
    largest: float = 50.0
    wide: float = 10.0
    tails: float = 1e3
    rounded: float = 1e-9
    most_terms: tuple[float, float] = (2.0**24, 2.0**30)


MIXTURES = MixtureSettings()
