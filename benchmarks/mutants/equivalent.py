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
)
"""Pairs of a proof and the ids of the mutants that it is about."""

EQUIVALENT = {mutant: proof for proof, mutants in PROOFS for mutant in mutants}
