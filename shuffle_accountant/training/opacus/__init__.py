"""Opacus with certified accounting (extra ``opacus``): two engines in the shape of Opacus' own.

`AllocationPrivacyEngine` is central DP-SGD, with Opacus' clipping and noise, whose batches are
dealt anew in every epoch, or shuffled, and are accounted for as what they are. One record is the
privacy unit; neighbours differ in one record that is zeroed out.

    from shuffle_accountant.training.opacus import AllocationPrivacyEngine

    engine = AllocationPrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0,
        max_grad_norm=1.0,
    )
    ...  # the usual loop
    engine.get_epsilon(delta=1e-5)  # a certified bracket, also in the middle of an epoch

`ShufflePrivacyEngine` is for users who trust a shuffler only: every user's gradient is clipped,
randomized by an eps0-LDP vector randomizer, shuffled and averaged; the model learns that mean.

    engine = ShufflePrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, eps0=4.0, max_grad_norm=1.0
    )

`lightning_callback` and `trainer_callback` keep an engine's accounting in the checkpoints of
Lightning and of Hugging Face's `Trainer`.

Importing this module registers "allocation" and "shuffle" with
`opacus.accountants.create_accountant`.
"""

from __future__ import annotations

from shuffle_accountant.facades import explain_calls
from shuffle_accountant.training.opacus.batches import AllocationPrivacyEngine, DealtOptimizer
from shuffle_accountant.training.opacus.deals import (
    AllocationAccountant,
    AllocationSampler,
    ShuffledSampler,
)
from shuffle_accountant.training.opacus.loops import lightning_callback, trainer_callback
from shuffle_accountant.training.opacus.messages import (
    ShuffleAccountant,
    ShuffleDataLoader,
    ShuffleOptimizer,
    ShufflePrivacyEngine,
)

__all__ = [
    "AllocationAccountant",
    "AllocationPrivacyEngine",
    "AllocationSampler",
    "DealtOptimizer",
    "ShuffleAccountant",
    "ShuffleDataLoader",
    "ShuffleOptimizer",
    "ShufflePrivacyEngine",
    "ShuffledSampler",
    "lightning_callback",
    "trainer_callback",
]

explain_calls(__name__)
