"""What real loaders of PyTorch and Opacus are taken for."""

from __future__ import annotations

from typing import Any

import pytest

from shuffle_accountant.training import explain

torch = pytest.importorskip("torch", reason="these are loaders of PyTorch")
opacus = pytest.importorskip("opacus.data_loader", reason="these are loaders of Opacus")

DATA = torch.utils.data.TensorDataset(torch.zeros(100, 3))


def loader(**options: Any) -> Any:
    return torch.utils.data.DataLoader(DATA, batch_size=10, **options)


def test_loaders() -> None:
    shuffled = explain(loader(shuffle=True), noise_multiplier=1.0)
    assert shuffled.sampling == "shuffled"
    assert explain(loader(), noise_multiplier=1.0).sampling == "unamplified"
    poisson = opacus.DPDataLoader.from_data_loader(loader(shuffle=True))
    found = explain(poisson, noise_multiplier=1.0)
    assert found.sampling == "poisson"
    assert found.protocol.in_order[0][1] == 10
    weighted = torch.utils.data.WeightedRandomSampler([1.0] * 100, 100)
    with pytest.raises(ValueError, match="weights"):
        explain(loader(sampler=weighted), noise_multiplier=1.0)
    again = torch.utils.data.RandomSampler(DATA, replacement=True)
    with pytest.raises(ValueError, match="replacement"):
        explain(loader(sampler=again), noise_multiplier=1.0)
