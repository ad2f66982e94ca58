"""The demonstration with sampled clients: shuffling costs less than the local guarantee."""

from __future__ import annotations

import pytest

import shuffle_accountant as sa


def test_sampled_clients_are_accounted_for(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn", reason="the demonstration trains on scikit-learn's digits")
    from benchmarks.training import federated_clients

    federated_clients.main(["--rounds", "3", "--seed", "1"])
    lines = capsys.readouterr().out.splitlines()[2:]
    assert len(lines) == 4
    for line in lines:
        eps0, local, shuffled, accuracy = map(float, line.split())
        one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=eps0), users=2_000, population=20_000)
        assert shuffled == round(sa.epsilon(one, delta=1e-6, rounds=3).upper, 3)
        assert local == 3 * eps0 > shuffled
        assert 0.0 <= accuracy <= 1.0
