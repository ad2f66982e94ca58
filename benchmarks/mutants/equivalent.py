"""Mutants that no test can kill, with the proof; `tests/test_mutants.py` says if one is gone."""

from __future__ import annotations

PROOFS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "It decides how finely a loss is resolved, not on which side of the truth it is: the atoms "
        "of either side are bounds for any cells and any rough deviation.",
        (
            "losses/combined/product.py _alone.edges: other side: side is Bound.OPTIMISTIC",
            "reductions/blanket.py _continuous: other side: pair.letters(Bound.OPTIMISTIC, _ROUGH)",
        ),
    ),
    (
        "It chooses between a sum over pairs and a grid, both of which are certified on either "
        "side; the tables of both sides have the same counts.",
        (
            "losses/tables/dummies.py ReplacedValue.exact: other side: _table(part, Bound.PESSIMISTIC)",
        ),
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
            "gaussian_profile(sigma, x, Bound.PESSIMISTIC)",
            "losses/steps/null_clones.py _plan: other side: "
            "charge(sigma, steps - 1, u, Bound.PESSIMISTIC)",
            "losses/steps/null_clones.py _plan: other side: "
            "_weights(steps, u, counts, Bound.PESSIMISTIC, tail)",
            "losses/steps/null_clones.py _rough_divergences: other side: "
            "_family(sigma, Bound.PESSIMISTIC, _ROUGH_WIDTH, tail, most)",
            "losses/steps/null_clones.py _rough_divergences: other side: "
            "_divergences(family.law(int(count)), losses, Bound.PESSIMISTIC)",
            "losses/steps/table_ratio.py TableRatio.deviation: other side: "
            "_law(self.bounds.upper, Bound.PESSIMISTIC)",
        ),
    ),
    (
        "Each entry of the bound has room for it: three times ten roundings of every logarithm and "
        "angle, of which a logarithm's argument takes four, twenty in all to spare for each count; "
        "the functions after the power take 18 and 16, one of which is left, and a norm loses 34 "
        "of what is at most that bound. Levels of a transform have ten for less than six.",
        (
            "lattice/convolve.py invert: left out: roundings(2 * ELEMENTARY + 2)",
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
        "It is a setting: how much may be missed, and how many nodes are worth it. What is missed "
        "is counted whatever it is.",
        (
            "sums/settings.py NodeSettings: left out: 0.05",
            "sums/tilted.py tilt_rows: left out: rest * relative",
            "sums/tilted.py tilt_rows: left out: total",
        ),
    ),
)
"""Pairs of a proof and the ids of the mutants that it is about."""

EQUIVALENT = {mutant: proof for proof, mutants in PROOFS for mutant in mutants}
