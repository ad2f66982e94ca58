"""The guides are executed: their Python blocks as doctests, one namespace for each guide."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

GUIDES = sorted((Path(__file__).resolve().parent.parent / "docs" / "guides").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_there_are_guides() -> None:
    assert GUIDES


@pytest.mark.parametrize("guide", GUIDES, ids=lambda guide: guide.stem)
def test_python_blocks(guide: Path) -> None:
    text = guide.read_text(encoding="utf-8")
    examples = []
    for match in BLOCK.finditer(text):
        for example in doctest.DocTestParser().get_examples(match[1]):
            example.lineno += text.count("\n", 0, match.start(1))
            examples.append(example)
    assert examples
    test = doctest.DocTest(examples, {}, guide.name, str(guide), 0, text)
    outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert outcome.failed == 0
