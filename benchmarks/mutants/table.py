"""All mutants."""

from __future__ import annotations

from benchmarks.mutants import certificates, engine, lattice, losses, numerics, reductions

MUTANTS = (
    *numerics.MUTANTS,
    *lattice.MUTANTS,
    *losses.MUTANTS,
    *reductions.MUTANTS,
    *engine.MUTANTS,
    *certificates.MUTANTS,
)
