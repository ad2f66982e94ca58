"""The guides about budgets and federated learning: their examples run."""

from __future__ import annotations

import doctest
import io
import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).resolve().parent.parent.parent / "docs" / "guides"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["budgets", "flower"])
def test_examples(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "budgets":
        pytest.importorskip("sqlalchemy", reason="SQLAlchemy is not installed (extra 'ledger')")
    monkeypatch.chdir(tmp_path)
    text = (GUIDES / f"{name}.md").read_text(encoding="utf-8")
    examples = doctest.DocTestParser().get_examples("\n".join(BLOCK.findall(text)))
    assert len(examples) >= 5
    report = io.StringIO()
    test = doctest.DocTest(examples, {}, name, None, 0, None)
    outcome = doctest.DocTestRunner().run(test, out=report.write)
    assert outcome.failed == 0, report.getvalue()
