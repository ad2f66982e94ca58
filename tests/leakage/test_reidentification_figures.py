"""The script of the re-identification paper's figures: its claims, but for that of speed."""

import importlib

import pytest


@pytest.mark.slow
def test_claims(pytestconfig, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="the figure is drawn with the extra 'plot'")
    monkeypatch.syspath_prepend(str(pytestconfig.rootpath))
    script = importlib.import_module("benchmarks.figures.reidentification")
    monkeypatch.setattr(script, "QUICK_PASSWORDS", (10**3, 10**4))
    monkeypatch.setattr(script, "LETTERS", 1000)
    outcome = script.run(quick=True, note=lambda text: None)
    claims = {claim.name: claim for claim in outcome.claims}
    assert len(claims) == 10
    assert all(claim.holds for name, claim in claims.items() if name != "speed")
    outcome.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000
