"""Mutants that no test can kill, with the proof; `tests/test_mutants.py` says if one is gone."""

from __future__ import annotations

PROOFS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "A sum begins at the number 0 instead of the interval of 0, to which intervals are added.",
        ("certificates/thresholds.py Thresholded._rows: left out: arb(0)",),
    ),
    (
        "It decides which places of a profile are taken for one: of these the last one is kept, "
        "with the least bound, or 0, with a bound of its own, whatever the distance.",
        ("engine/groups.py _splits: left out: 16.0 * group * budget().roundoff",),
    ),
    (
        "The product's rounding is far less than the hundredth that the scale has more than it "
        "takes, and half of the smallest double where it is subnormal: two of those are added for "
        "each mass of the window, of which a mass itself takes one.",
        (
            "engine/composition.py TiltedSum.beyond: not rounded: "
            "share(self._above, scale, 0.0, upper=True)",
        ),
    ),
    (
        "It decides how finely a loss is resolved, not on which side of the truth it is: the atoms "
        "of either side are bounds for any cells and any rough deviation.",
        (
            "losses/combined/product.py _alone.edges: other side: side is Bound.OPTIMISTIC",
            "reductions/blanket.py _continuous: other side: pair.letters(Bound.OPTIMISTIC, _ROUGH)",
        ),
    ),
    (
        "It chooses a block of bins, or the epsilon about which a bound is tight: every block from "
        "below is a bound, and what is made for one epsilon is a bound at all of them.",
        (
            "losses/dealt/correlated.py rough_epsilon: other side: "
            "power(look.law, chains, Bound.PESSIMISTIC, width=CORRELATED.loose, tail=tail)",
        ),
    ),
    (
        "A round is compared with units in both orders, one after the other, whichever is first.",
        (
            "training/plans.py unit_cost: other side: all(_covered(one, unit, high, slack, "
            "epsilons, swapped) for swapped in (False, True))",
        ),
    ),
    (
        "It chooses between two theorems at a rough delta. Both hold, on either side.",
        (
            "reductions/allocation.py _upper: other side: one.delta(epsilon, Bound.PESSIMISTIC, "
            "_ROUGH)",
        ),
    ),
    (
        "It chooses between a sum over pairs and a grid, both of which are certified on either "
        "side; the tables of both sides have the same counts.",
        ("losses/dummies.py ReplacedValue.exact: other side: _table(part, Bound.PESSIMISTIC)",),
    ),
    (
        "It only finds out how far apart losses are, and which points of the profile, p and numbers "
        "of clones are worth computing. Whatever is chosen, a bound is one; and both sides of what "
        "is looked at agree to so many digits that as much is chosen.",
        (
            "losses/steps/gaussian.py profile_end: other side: "
            "gaussian_profile(sigma, high, Bound.PESSIMISTIC)",
            "losses/steps/gaussian.py profile_end: other side: "
            "gaussian_profile(sigma, middle, Bound.PESSIMISTIC)",
            "losses/steps/null_clones.py _deviation: other side: "
            "charge(sigma, steps - 1, middle, Bound.PESSIMISTIC)",
            "losses/steps/null_clones.py _plan: other side: "
            "gaussian_profiles(sigma, rough, Bound.PESSIMISTIC)",
            "losses/steps/null_clones.py _plan: other side: "
            "charges(sigma, steps - 1, lattice, Bound.PESSIMISTIC)",
            "losses/steps/null_clones.py _plan: other side: "
            "_weights(steps, u, counts, Bound.PESSIMISTIC, tail)",
            "losses/steps/null_clones.py _rough_divergences: other side: "
            "_family(sigma, Bound.PESSIMISTIC, DOUBLING.widest, tail, most)",
            "losses/steps/null_clones.py _rough_divergences: other side: "
            "_divergences(family.law(int(count)), losses, Bound.PESSIMISTIC)",
            "losses/steps/table_ratio.py TableRatio.deviation: other side: "
            "_law(self.bounds.upper, Bound.PESSIMISTIC)",
        ),
    ),
    (
        "It only says at which losses a profile is looked at, and how far the last of them is: the "
        "polygon through bounds at any losses is a bound.",
        (
            "losses/alphabets/blanket.py BlanketLoss.shared_atoms: other side: "
            "source_messages(pair, Bound.OPTIMISTIC, effort)",
            "losses/alphabets/blanket.py BlanketLoss._scale: other side: "
            "source_messages(pair, Bound.PESSIMISTIC, effort)",
            "losses/alphabets/blanket.py BlanketLoss._scale: left out: "
            "1e5 * effort.tail * np.exp(-logs)",
            "losses/alphabets/blanket.py BlanketLoss._few_letters: other side: "
            "source_messages(pair, Bound.PESSIMISTIC, effort)",
            "losses/alphabets/blanket.py BlanketLoss._inside: other side: side is Bound.OPTIMISTIC",
            "losses/alphabets/blanket.py _end: other side: "
            "source_messages(pair, Bound.PESSIMISTIC, effort)",
            "losses/alphabets/random_users.py _fewest: other side: "
            "loss.source.samples(Bound.PESSIMISTIC, effort)",
            "losses/alphabets/random_users.py _fewest: other side: "
            "source_messages(pair, Bound.OPTIMISTIC, effort)",
            "losses/alphabets/random_users.py _whole.points: other side: "
            "inner.spaced_points(Bound.PESSIMISTIC, edges, wider, MIXTURES.step)",
            "losses/alphabets/random_users.py _whole: left out: PROFILES.beyond",
            "losses/alphabets/random_users.py _near_points: left out: PROFILES.beyond",
            "losses/alphabets/random_users.py _near_points: left out: PROFILES.beyond #2",
            "losses/two_letters/zero_out.py ZeroOutLoss.atoms: left out: roundings(64)",
        ),
    ),
    (
        "It says how wide a table's cells are: atoms at cells of any width are certified, on either "
        "side.",
        ("losses/decoy_counts.py NumberOfClones.tabled: other side: side is Bound.PESSIMISTIC",),
    ),
    (
        "It says how far below the charge a tail is worth asking for: a hundredth of a bracket's "
        "width, whichever side of the charge is taken. What is left out is counted.",
        (
            "losses/two_letters/zero_out.py ZeroOutLoss._near: other side: "
            "self._charge(np.zeros(1), Bound.OPTIMISTIC)",
        ),
    ),
    (
        "It is rough knowledge of how much work tables take, and how coarse those of rare numbers of "
        "messages may be: tables of any coarseness are certified, as is each number by itself.",
        (
            "losses/alphabets/random_users.py _mixture: other side: "
            "loss.source.samples(Bound.PESSIMISTIC, effort)",
            "losses/alphabets/random_users.py _shares: other side: "
            "source_messages(pair, Bound.OPTIMISTIC, effort)",
        ),
    ),
    (
        "It decides which pairs are looked at more closely; the upper bounds of those that are not "
        "join the maximum of all pairs.",
        ("losses/alphabets/profiles.py ProfileTable._known: left out: roundings(16)",),
    ),
    (
        "Each entry of the bound has room for it: three times ten roundings of every logarithm and "
        "angle, of which a logarithm's argument takes four, twenty in all to spare for each count; "
        "the functions after the power take 38, and what remains of the modulus 16; a norm loses 34 "
        "of what is at most that bound. Levels of a transform have ten for less than six.",
        (
            "lattice/convolve.py invert: left out: roundings(2 * ELEMENTARY)",
            "lattice/convolve.py invert: not rounded: lowered(modulus, roundings(2 * ELEMENTARY))",
            "lattice/convolve.py _norm: left out: pairwise_sum(own=2)",
            "lattice/convolve.py _norm: not rounded: "
            "raised(math.sqrt(float(np.sum(np.square(values)))), pairwise_sum(own=2))",
        ),
    ),
    (
        "The slope is that of the last step; only if it is flatter than 1e-300 of its height this "
        "decides, and then it puts the end of the profile nearer, which is lower.",
        ("lattice/profile.py _with_end: left out: infinite #2",),
    ),
    (
        "The product of both errors: a slope is off by five roundings (two differences, a quotient) "
        "of the sixteen allowed for, and the exponential's error is below one for every double.",
        ("lattice/profile.py _masses: left out: slack #2",),
    ),
    (
        "What the logarithm's argument s was raised by, sixty roundings and more, moves it by more "
        "than ten roundings and one for each group of |log s| do, as s |log s| <= 1/e for s < 1.",
        (
            "lattice/stack.py _bounds: left out: roundings(64)",
            "lattice/stack.py _bounds: left out: roundings(64) * np.abs(result)",
        ),
    ),
    (
        "A modulus' own roundings are among the forty of its logarithm as well, which bound the "
        "error of the power.",
        ("lattice/stack.py _resolve: left out: roundings(ELEMENTARY + 4)",),
    ),
    (
        "The relative error of the scale has 256 roundings, and eight for each unit of the exponent, "
        "for an exponential, a quotient and fewer than ten products and sums: 20 in all.",
        (
            "sums/nodes.py NodeTable._near: left out: 128 * UNIT_ROUNDOFF",
            "sums/nodes.py NodeTable._near: left out: 64 * UNIT_ROUNDOFF",
        ),
    ),
    (
        "The normal's part only lowers the event's probability under P, total - noise + (1 + x) q, "
        "whose error is relative to itself: the other terms bound it.",
        ("sums/nodes.py NodeTable._near: left out: noise",),
    ),
    (
        "Where cells end, how wide they are and which way a sum is taken is a choice: masses go "
        "to the ends or to the mean of whatever cells there are, and what each way rounds is "
        "counted there. Edges do not depend on the side.",
        (
            "sums/doubling.py sum_cells: other side: _Addition(Bound.OPTIMISTIC, min(width, "
            "DOUBLING.widest), 0.0, 1)",
            "sums/doubling.py _Addition._cells: left out: roundings(terms)",
            "sums/doubling.py _Addition._edges: left out: roundings(4)",
        ),
    ),
    (
        "Twice the slack has 2 k + 6 roundings, k the most atoms in a group; a quotient of two "
        "sums of k products takes 2 k, a share between two atoms four.",
        ("sums/doubling.py coarser: left out: roundings(8)",),
    ),
    (
        "Masses of pairs are raised by ten roundings of their own or more, of which products "
        "take four and the split three.",
        (
            "sums/doubling.py _Addition.add: not rounded: raised(rounded(mass, 3), roundings(4))",
            "sums/doubling.py _Addition.add: left out: roundings(4)",
        ),
    ),
    (
        "Masses sum to less than one but for rounding, which mass_error holds 512 of: without "
        "what is lost errors are larger.",
        ("sums/far_messages.py _Groups._errors: left out: lost",),
    ),
    (
        "With a the computed mean, true and computed moments per mass of a sum differ by at "
        "most the doubt plus |a| times the product of the masses' errors, which is the slack: "
        "it is counted twice, so no further factor is needed for a slack below one.",
        (
            "sums/even_cells.py EvenCells.means_error: left out: 4.0 * self.slack",
            "sums/even_cells.py EvenCells.spaced: left out: 4.0 * slack",
            "sums/even_cells.py EvenCells.plus: left out: 4.0 * slack",
        ),
    ),
    (
        "Sums of pairs state ten roundings of each product or more: the product takes four, a "
        "share of a probability two.",
        ("sums/statistic.py Hypotheses.add: left out: roundings(8)",),
    ),
    (
        "phi is that of distances from the mean as it was rounded. That angles t times the mean "
        "are rounded, five times, is in the 64 roundings of the phase, for each of n messages.",
        (
            "sums/spectra.py _coefficients: left out: 16.0 * UNIT_ROUNDOFF * t * np.abs(mean)",
            "sums/tilted.py Tilted.off: left out: 16.0 * UNIT_ROUNDOFF * np.abs(self.mean)",
        ),
    ),
    (
        "Eight times the slack, which has 64 roundings, is more than two sums and a quotient "
        "are off by.",
        ("sums/lists.py ListedProfile.upper: left out: 256 * UNIT_ROUNDOFF",),
    ),
    (
        "A lower end holds for whatever event; its difference is rounded three times, of 128 "
        "roundings and more in its error, half of which masses and sums may take.",
        ("sums/lists.py ListedProfile.lower: left out: 64 * UNIT_ROUNDOFF * (1.0 + excess)",),
    ),
    (
        "Sums state twenty roundings or more, and are counted twice: three more roundings of a "
        "difference are in the second.",
        ("sums/lists.py ListedProfile._positive_parts: left out: 8 * UNIT_ROUNDOFF",),
    ),
    (
        "They choose the distance of nodes and cells, those from above or those from below: a spread "
        "to nodes and means of cells are bounds for any distance.",
        (
            "sums/pair_law.py _distances: other side: upper",
            "sums/pair_law.py _distances: other side: upper #2",
        ),
    ),
)
"""Pairs of a proof and the ids of the mutants that it is about."""

EQUIVALENT = {mutant: proof for proof, mutants in PROOFS for mutant in mutants}
