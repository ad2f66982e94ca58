"""PyTorch Lightning: the private loader and optimizer, and checkpoints that keep the accounting."""

from __future__ import annotations

from typing import Any

import lightning
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader

from benchmarks.training.recipes import records as r
from shuffle_accountant.training.opacus import AllocationPrivacyEngine, lightning_callback


class PrivateModule(lightning.LightningModule):
    """A classifier that trains with its engine's loader and optimizer."""

    def __init__(self, records: r.Records) -> None:
        super().__init__()
        model = nn.Linear(r.FEATURES, r.CLASSES)
        self.engine = AllocationPrivacyEngine()
        self.model, self.private_optimizer, self.private_loader = self.engine.make_private(
            module=model,
            optimizer=optim.SGD(model.parameters(), lr=1.0),
            data_loader=DataLoader(records, batch_size=r.BATCH_SIZE),
            noise_multiplier=r.NOISE_MULTIPLIER,
            max_grad_norm=1.0,
        )

    def training_step(self, batch: Any, _: int) -> Tensor:
        """The loss: a mean over records, not logged, for it is not private."""
        features, labels = batch
        return nn.functional.cross_entropy(self.model(features), labels)

    def configure_optimizers(self) -> Any:
        """The private optimizer."""
        return self.private_optimizer

    def train_dataloader(self) -> Any:
        """The private loader."""
        return self.private_loader


def trainer(module: PrivateModule, epochs: int, **options: Any) -> lightning.Trainer:
    """A trainer on one device that leaves gradients and loader alone and keeps the accounting."""
    return lightning.Trainer(
        callbacks=[lightning_callback(module.engine, delta=r.DELTA)],
        max_epochs=epochs,
        accelerator="cpu",
        devices=1,
        use_distributed_sampler=False,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


if __name__ == "__main__":
    module = PrivateModule(r.Records())
    trainer(module, r.EPOCHS).fit(module)
    engine = module.engine
    r.report("Lightning", engine.get_epsilon(r.DELTA), len(engine.accountant))
