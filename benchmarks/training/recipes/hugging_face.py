"""Hugging Face's Trainer: its own sampler shuffles, so the private loader takes its place."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from torch import nn, optim
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

from benchmarks.training.recipes import records as r
from shuffle_accountant.training.opacus import AllocationPrivacyEngine, trainer_callback


class PrivateTrainer(Trainer):
    """Trains with an engine's loader and optimizer; the loss is a mean over records."""

    def __init__(self, *, private_loader: Any, **options: Any) -> None:
        super().__init__(**options)
        self.private_loader = private_loader
        self.model_accepts_loss_kwargs = False  # no division by what a batch happens to hold

    def get_train_dataloader(self) -> Any:
        """The private loader, not wrapped: Accelerate's would look ahead in it."""
        return self.private_loader

    def training_step(self, *arguments: Any, **options: Any) -> Any:
        """A backward pass; the Trainer clears the model's gradients, not the optimizer's."""
        self.optimizer.zero_grad()
        return super().training_step(*arguments, **options)

    def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
        """The loss of a batch, without a number of items to divide by."""
        scores = model(inputs["features"])
        loss = nn.functional.cross_entropy(scores, inputs["labels"])
        return (loss, scores) if return_outputs else loss


def collate(batch: list[tuple[torch.Tensor, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Records as the named columns that a Trainer hands on."""
    features, labels = zip(*batch, strict=True)
    return {"features": torch.stack(features), "labels": torch.stack(labels)}


def train(
    records: r.Records, folder: str, checkpoint: str | None = None, **options: Any
) -> AllocationPrivacyEngine:
    """Train, or go on from a checkpoint; the engine knows what it has cost."""
    model = nn.Linear(r.FEATURES, r.CLASSES)
    engine = AllocationPrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model,
        optimizer=optim.SGD(model.parameters(), lr=1.0),
        data_loader=DataLoader(records, batch_size=r.BATCH_SIZE, collate_fn=collate),
        noise_multiplier=r.NOISE_MULTIPLIER,
        max_grad_norm=1.0,
    )
    arguments = TrainingArguments(
        output_dir=folder,
        **{
            "num_train_epochs": r.EPOCHS,
            "max_grad_norm": 0.0,  # the engine clips; the norm that is logged is not private
            "gradient_accumulation_steps": 1,  # large batches by BatchMemoryManager
            "logging_strategy": "no",  # nor is the loss
            "save_strategy": "epoch",
            "report_to": "none",
            "use_cpu": True,
            "disable_tqdm": True,
            **options,
        },
    )
    PrivateTrainer(
        model=model,
        args=arguments,
        optimizers=(optimizer, None),
        private_loader=loader,
        callbacks=[trainer_callback(engine, delta=r.DELTA, resume_from=checkpoint)],
    ).train(resume_from_checkpoint=checkpoint)
    return engine


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        engine = train(r.Records(), folder)
    r.report("Trainer", engine.get_epsilon(r.DELTA), len(engine.accountant))
