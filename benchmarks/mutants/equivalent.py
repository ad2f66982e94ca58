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
)
"""Pairs of a proof and the ids of the mutants that it is about."""

EQUIVALENT = {mutant: proof for proof, mutants in PROOFS for mutant in mutants}
