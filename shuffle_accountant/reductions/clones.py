"""Clones: other users' messages hide the target's as if they were its own, now and then.

Adjacency: one user's value is replaced. Bound: an upper bound on what the shuffled messages
reveal. Write E = e^eps0, u = E/(E+1), v = 1/(E+1).

*Common randomizer* (Feldman, McMillan and Talwar 2022, "Stronger privacy amplification by
shuffling"): target (u, v) against (v, u), decoys (v, v, 1 - 2v) with a blank. The published proof
of the paper's general Lemma 3.5 carries an erratum, it fails for mixtures with a third component;
for one common randomizer per round the bound holds by the proof in `docs/understand/soundness.md`.

*Interactive* (Feldman, McMillan and Talwar 2021, "Hiding among the clones", Theorem 3.2): the
randomizer may look at earlier messages of the same round; decoys (1/(2E), 1/(2E), 1 - 1/E).

The strong adversary of k-ary randomized response: it knows who answered at random.

'Numerical Accounting in the Shuffle Model', Section 4. With probability gamma the target answered
at random; the adversary sees that, and both datasets look alike. Else the target's message is its
true value, 1 under X and 2 under X', among decoys that show each of the two with probability
gamma/k; the loss is ``log(N1/N2)`` of the counts, taken jointly. Three variants, ordered exact <=
paper <= tail:

* ``exact``: the mixture of both cases.
* ``paper``: the second case alone, as in the paper's Figure 4; it drops the factor 1 - gamma.
* ``tail``: ``P(loss >= epsilon)`` in the second case, the paper's equation (4.2); it also drops
  the factor ``1 - e^(epsilon - loss)``.

This adversary is stronger than one that sees the messages alone, so all three are upper bounds for
that one, and not tight. Adjacency: one user's value is replaced.

*Null clones*: other records' Gaussian steps hide the target as null steps do, now and then.

Adjacency: zero-out. Bound: an upper bound. Covers shuffled batches and Gaussian messages that
are shuffled, for any dimension, any vectors of norm at most 1 and queries that look back.

*Shuffled batches.* Records are permuted and dealt into T batches of one size in order. (With
batches of different sizes some slots exist in full batches only, and for the others one place that
is not the target's is given away: then T is the number of *full* batches. A bound at T' <= T always
holds.) For every p in (0, 1), which may depend on alpha and on the order, and both orders,

    H_alpha(D‖D') <= E_K[H_alpha(allocation, 1 of K)] + (1 + alpha) beta,   K = 1 + Bin(T - 1, p),

where ``beta = 1 - (1 - gamma)^(T-1)``, ``gamma = p Phi(1/(2 sigma) - sigma h) - Phi(-1/(2 sigma) -
sigma h)`` or 0, if that is negative, ``h = log(1/p)``. So is the lower convex envelope of the least
of these and the Gaussian mechanism's (all other places revealed). The proof is on the same page.

*One shuffle used for several epochs*: place j carries Y_j ~ N(1 or 0, sigma^2 / E), from which a
kernel makes the E steps of that place whatever the queries; null clones for the Y_j.

*Shuffled messages*: n users who each send a vector plus noise are T = n places of one record.

The idea of null clones is Mausberg's (2026); sources for the pair are Chua et al. 2024 and Feldman
and Shenfeld 2025.

Messages close to a null law: null draws of others hide the target's.

Every randomizer's law is (eps0, delta0)-close, both ways, to one null law w. Then each other
message is within total variation ``eta = e^-eps0 delta0`` of ``p w + (1 - p) r``, ``p = e^-eps0``:
all others are replaced, and who is not a draw of w is revealed. The pair (R(x), w) is dominated by

    P = (delta0, (1 - delta0) E/(1 + E), (1 - delta0)/(1 + E), 0),  Q = P backwards,  E = e^eps0

(Kairouz, Oh and Viswanath 2015), and the kernel that takes Q to w and P to R(x) takes a whole bag
of P, or Q, among draws of Q to what is left to be seen. Hence for both orders and alpha >= 0

    H_alpha <= E_K[H_alpha(P or Q among K - 1 draws of Q)] + (1 + alpha) (n - 1) eta,

``K = 1 + Bin(n - 1, e^-eps0)``. No theorem about clones is needed. Adjacency: zero-out. Bound: an
upper bound.
"""

from __future__ import annotations

import math

from shuffle_accountant.losses.base import PrivacyLoss, by_side, noise_of
from shuffle_accountant.losses.combined.subsampled import DilutedLoss
from shuffle_accountant.losses.decoy_counts import NumberOfClones
from shuffle_accountant.losses.settings import GAUSSIAN, ZERO_OUT
from shuffle_accountant.losses.steps.gaussian import gaussian_mean_loss
from shuffle_accountant.losses.steps.null_clones import NullCloneLoss
from shuffle_accountant.losses.two_letters.binary import BinaryLoss
from shuffle_accountant.losses.two_letters.tail import ProbabilisticDpLoss
from shuffle_accountant.losses.two_letters.zero_out import ZeroOutLoss, among_draws
from shuffle_accountant.numerics.rounding import Bound, over_root
from shuffle_accountant.randomizers.base import Mixture
from shuffle_accountant.reductions.base import Pair, Reduction, TargetAmongDecoys

VARIANTS = ("exact", "paper", "tail")


def strong(mixture: Mixture, users: int, variant: str) -> Reduction:
    """Reduce a round of k-ary randomized response against the strong adversary."""
    k, gamma = mixture.categories, mixture.gamma
    single = gamma / k
    idle = mixture.truthful + gamma * ((k - 2) / k)
    # a target that never lies
    clones = NumberOfClones.from_eps0(math.inf, decoys=users - 1, rate=2.0 * single, idle=idle)
    loss: PrivacyLoss = BinaryLoss(clones)
    if variant == "exact":
        loss = DilutedLoss(loss, active=mixture.truthful, harmless=gamma)
    elif variant == "tail":
        loss = ProbabilisticDpLoss(clones)
    q = (single, single, idle)
    decoys = TargetAmongDecoys(p0=(1.0, 0.0, 0.0), p1=(0.0, 1.0, 0.0), q=q, n=users)
    return Reduction(f"strong, {variant}", decoys, loss)


def clones(eps0: float, users: int, *, interactive: bool = False) -> Reduction:
    """Reduce a round of any eps0-LDP randomizer to binary randomized response among clones.

    An ``interactive`` one may depend on earlier messages of the same round.
    """
    ratio = math.exp(-eps0)
    u, v = 1.0 / (1.0 + ratio), ratio / (1.0 + ratio)
    name, rate, idle = "clones", 2.0 * v, math.tanh(0.5 * eps0)
    if interactive:
        name, rate, idle = "interactive clones", ratio, -math.expm1(-eps0)
    q = (0.5 * rate, 0.5 * rate, idle)
    number = NumberOfClones.from_eps0(eps0, decoys=users - 1, rate=rate, idle=idle)
    decoys = TargetAmongDecoys(p0=(u, v, 0.0), p1=(v, u, 0.0), q=q, n=users)
    return Reduction(name, decoys, BinaryLoss(number))


def null_law(eps0: float, delta0: float, users: int) -> Pair:
    """The dominating pair for a round of messages that are (eps0, delta0)-close to a null law.

    ``eps0`` is at most `ZERO_OUT.largest_eps0` unless ``delta0`` is 0.
    """
    loss: PrivacyLoss
    if delta0 > 0.0 and eps0 == 0.0:
        # the target alone: it is given away with probability delta0, and else hides nothing
        loss = DilutedLoss(clones(math.inf, 1).loss, delta0, 1.0 - delta0)
    elif delta0 > 0.0:
        loss = ZeroOutLoss(eps0, delta0, users)
    elif eps0 == 0.0 or eps0 > ZERO_OUT.largest_eps0:  # nothing to hide, or nobody to hide among
        loss = clones(eps0, 1).loss
    else:
        loss = among_draws(eps0, 0.0, users)
    return Pair("null law", loss, two_sided=True)


def null_clones(noise_multiplier: float, places: int, passes: int = 1) -> Pair:
    """The dominating pair for a record in one of the places, batches or messages, uniformly."""
    found = over_root(noise_multiplier, passes)

    def loss(side: Bound) -> PrivacyLoss:
        sigma = noise_of(found, side)
        if places == 1 or sigma < GAUSSIAN.least_sigma:  # nobody hides anybody
            return gaussian_mean_loss(sigma, 1)
        return NullCloneLoss(sigma, places)

    return Pair("null clones", by_side(loss))
