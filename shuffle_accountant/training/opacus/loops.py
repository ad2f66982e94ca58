# mypy: disable-error-code="misc"
# Lightning and transformers are optional, so their classes are of unknown type here.
"""Callbacks for training loops, Lightning's and Hugging Face's: an engine's accounting is kept.

What must reach the loop as it is are the loader and the optimizer of `make_private`: a step on
another batch is refused by the optimizer itself.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.training.opacus.shared import CertifiedEngine

_FILE = "privacy_accountant.json"


def lightning_callback(engine: CertifiedEngine, *, delta: float) -> Any:
    """A callback for Lightning's ``Trainer(callbacks=[...])`` that keeps an engine's accounting.

    Lightning saves its state, which is the accountant's, with every checkpoint, and restores it
    before that of the optimizer: ``fit(ckpt_path=...)`` goes on with what was spent.

    Args:
        engine: one whose `make_private` made the module's optimizer and loader.
        delta: of the brackets in the callback's attribute ``epsilons``, one for each epoch.

    Raises:
        ImportError: Lightning is not installed.
        ValueError: when training begins: an option of the trainer that changes gradients.
    """
    try:
        from lightning import Callback
    except ImportError:
        raise ImportError(
            "lightning_callback needs Lightning: pip install '.[lightning]' in a clone"
        ) from None

    class PrivacyCallback(_Keeping, Callback):
        """Keeps the accounting of an engine in Lightning's checkpoints."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            """Refuse what would change the private gradients, or share them among devices."""
            scaled = getattr(trainer.precision_plugin, "scaler", None)
            found = {
                "gradient_clip_val": (trainer.gradient_clip_val, (None, 0)),
                "accumulate_grad_batches": (trainer.accumulate_grad_batches, (1,)),
                "devices": (trainer.num_devices * trainer.num_nodes, (1,)),
                "precision": ("a GradScaler" if scaled is not None else None, (None,)),
            }
            _refuse("Trainer", found)

        def state_dict(self) -> dict[str, Any]:
            """The accounting, for a checkpoint."""
            state: dict[str, Any] = engine.accountant.state_dict()
            return state

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            """Go on with the accounting of a checkpoint."""
            engine.accountant.load_state_dict(state_dict)

    return PrivacyCallback(engine, delta)


def trainer_callback(
    engine: CertifiedEngine, *, delta: float, resume_from: str | Path | None = None
) -> Any:
    """A callback for Hugging Face's ``Trainer(callbacks=[...])`` that keeps an engine's accounting.

    It writes the accountant's state into every checkpoint's folder. The trainer restores the
    optimizer before it asks callbacks, so the folder is named here as well as in ``train``.

    Args:
        engine: one whose `make_private` made the trainer's optimizer and loader.
        delta: of the brackets in the callback's attribute ``epsilons``, one for each epoch.
        resume_from: folder of the checkpoint that ``train(resume_from_checkpoint=...)`` goes on
            from; its accounting is loaded at once.

    Raises:
        ImportError: transformers is not installed.
        ValueError: no accounting in that folder; when training begins: an option of the trainer
            that changes gradients or logs their norm.
    """
    try:
        from transformers import TrainerCallback
    except ImportError:
        raise ImportError(
            "trainer_callback needs transformers: pip install '.[transformers]' in a clone"
        ) from None

    class PrivacyCallback(_Keeping, TrainerCallback):
        """Keeps the accounting of an engine in the Trainer's checkpoints."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Refuse what would change the private gradients, or log their norm."""
            found = {
                "max_grad_norm": (args.max_grad_norm, (None, 0.0)),
                "gradient_accumulation_steps": (args.gradient_accumulation_steps, (1,)),
                "world_size": (args.world_size, (1,)),
                "fp16": (args.fp16, (False,)),
            }
            _refuse("TrainingArguments", found)

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Write the accounting into the folder of the checkpoint."""
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            text = json.dumps(engine.accountant.state_dict())
            (folder / _FILE).write_text(text, encoding="utf-8")

    callback = PrivacyCallback(engine, delta)
    if resume_from is not None:
        path = Path(resume_from) / _FILE
        if not path.is_file():
            raise ValueError(f"resume_from must be a checkpoint with a {_FILE}, got {resume_from}")
        engine.accountant.load_state_dict(json.loads(path.read_text(encoding="utf-8")))
    return callback


class _Keeping:
    """An engine whose accounting is kept, with a bracket of epsilon for each epoch."""

    def __init__(self, engine: CertifiedEngine, delta: float) -> None:
        if not isinstance(engine, CertifiedEngine):
            raise TypeError(
                "engine must be an AllocationPrivacyEngine or a ShufflePrivacyEngine, got "
                f"{validate.shown(engine)} of type {type(engine).__name__}"
            )
        self.engine, self._delta = engine, validate.open_unit(delta=delta)
        self.epsilons: list[Bracket] = []

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """Collect the bracket of what has been spent."""
        self.epsilons.append(self.engine.get_epsilon(self._delta))

    on_train_epoch_end = on_epoch_end  # Lightning's name


def _refuse(owner: str, found: dict[str, tuple[Any, tuple[Any, ...]]]) -> None:
    """Refuse an option that is none of those allowed, by its name."""
    for name, (value, allowed) in found.items():
        if value not in allowed:
            raise ValueError(
                f"{name} of the {owner} must be {allowed[-1]} (the engine clips and adds noise to "
                f"whole batches, on one device), got {value!r}"
            )
