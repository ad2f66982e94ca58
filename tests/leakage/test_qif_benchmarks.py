"""The figures and errata of quantitative information flow are judged, and can fail."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_errata_hold(benchmark_script):
    outcome = benchmark_script("errata_qif").run(True, lambda text: None)
    assert [claim.name for claim in outcome.claims if claim.holds is not True] == []
    assert len(outcome.claims) == 12


@pytest.mark.slow
def test_figures_hold_and_can_be_drawn(benchmark_script, tmp_path, monkeypatch):
    figure = benchmark_script("figures.qif")
    # speed is not tested here
    monkeypatch.setattr(figure, "LARGE", figure.LARGE[:2])
    monkeypatch.setattr(figure, "TIMED_TOGETHER", (2,))
    monkeypatch.setattr(figure, "TIMED", (1000, 10))
    outcome = figure.run(True, lambda text: None)
    held = {claim.name: claim.holds for claim in outcome.claims}
    assert held["published"]
    assert held["partitions"]
    for row in outcome.rows:
        assert 1 / row["categories"] <= row["value"] * (1 + 1e-15) <= 1 + 1e-14
        # the shuffler post-processes
        assert row["alone"] == "" or row["value"] <= row["alone"] * (1 + 1e-15)
    pytest.importorskip("matplotlib", reason="draws the figure")
    outcome.draw(tmp_path / "qif.png")
    assert (tmp_path / "qif.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_wrong_printed_value_fails_its_claim(benchmark_script, monkeypatch):
    figure = benchmark_script("figures.qif")
    monkeypatch.setattr(figure, "LARGE", figure.LARGE[:1])
    monkeypatch.setattr(figure, "TIMED_TOGETHER", (2,))
    monkeypatch.setattr(figure, "TIMED", (1000, 2))
    monkeypatch.setattr(figure, "COUNTED", figure.COUNTED[:2])
    # Section IV-B's other value
    wrong = (figure.KRR, 200, 2, 1.0, 0.5286, 4)
    monkeypatch.setattr(figure, "PUBLISHED", (*figure.PUBLISHED, wrong))
    held = {claim.name: claim.holds for claim in figure.run(True, lambda text: None).claims}
    assert held["published"] is False
