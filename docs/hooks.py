"""What the site takes from elsewhere in the repository: MkDocs calls these functions.

Notebooks are executed, the page of the command line is its help, the changelog and the errata are
included from where they stand, and Mermaid is bundled, so that pages are whole without a network.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

from executing import EXECUTED, NOTEBOOKS, ROOT, executed, run  # noqa: E402

sys.path.insert(0, str(ROOT))

INCLUDE = re.compile(r'<!-- include: (\S+?)(?: "([^"]+)")? -->')
# Told apart from plain Python, so that the copy button leaves prompts and outputs out (site.css).
SESSION = re.compile(r"^```python\n>>> ", re.MULTILINE)
HELP = "<!-- command line -->"
PROGRAM = "shuffle-accountant"
# Draws the diagrams; of npm's registry.
PACKAGE, MERMAID = "mermaid@11.17.2", "assets/mermaid.min.js"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Pages lie beside mkdocs.yml; those that the navigation does not list end their part."""
    config.docs_dir = str(DOCS)
    config.nav = complete(config.nav or [], DOCS, NOTEBOOKS)
    return config


def complete(nav: list[Any], docs: Path, notebooks: Path) -> list[Any]:
    """The navigation with every page: a folder's part has the title of the folder."""
    parts = {title: list(pages) for entry in nav for title, pages in entry.items() if title}
    for title, pages in parts.items():
        folder = docs / title.lower()
        if title == "Notebooks":
            found = sorted(notebooks.glob("*.ipynb"))
            pages += [{title_of(path): f"notebooks/{path.name}"} for path in found]
        elif folder.is_dir():
            there = [path.relative_to(docs).as_posix() for path in sorted(folder.glob("*.md"))]
            listed = set(_paths(pages))
            pages += [path for path in there if path not in listed]
    return [
        {title: parts[title] if isinstance(pages, list) else pages}
        for entry in nav
        for title, pages in entry.items()
    ]


def _paths(pages: list[Any]) -> Iterator[str]:
    """Paths of all pages of a part of the navigation, and of the parts inside it."""
    for page in pages:
        if isinstance(page, str):
            yield page
        else:
            for inside in page.values():
                yield from _paths(inside if isinstance(inside, list) else [inside])


def title_of(notebook: Path) -> str:
    """The first heading of a notebook."""
    first = json.loads(notebook.read_text(encoding="utf-8"))["cells"][0]["source"][0]
    return str(first).lstrip("# ").strip()


@event_priority(100)  # before the plugin that takes notebooks for pages
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the notebooks, executed, and the program that draws diagrams."""
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(executed, notebooks))
    for path in notebooks:
        source = f"notebooks/{path.name}"
        files.append(File(source, str(EXECUTED.parent), config.site_dir, config.use_directory_urls))
    files.append(File(MERMAID, str(mermaid()), config.site_dir, use_directory_urls=False))
    return files


def mermaid() -> Path:
    """The folder that has Mermaid, fetched once; the theme would fetch it in the browser."""
    folder = ROOT / "build" / PACKAGE.replace("@", "-")
    if not (folder / MERMAID).exists():
        with tempfile.TemporaryDirectory() as fetched:
            run(["npm", "pack", "--silent", "--pack-destination", fetched, PACKAGE], {})
            (archive,) = Path(fetched).iterdir()
            with tarfile.open(archive) as package:
                program = package.extractfile("package/dist/mermaid.min.js")
                assert program is not None
                (folder / MERMAID).parent.mkdir(parents=True, exist_ok=True)
                (folder / MERMAID).write_bytes(program.read())
    return folder


def on_post_page(output: str, page: Page, **_: Any) -> str:
    """Pages with diagrams load Mermaid from the site: the theme takes the one that is there."""
    if 'class="mermaid"' not in output:
        return output
    place = get_relative_url(MERMAID, page.url)
    return output.replace("</head>", f'<script src="{place}"></script></head>', 1)


def on_page_markdown(markdown: str, page: Page | None = None, **_: Any) -> str:
    """Put in what stands elsewhere; the home page has no columns at its sides."""
    if page is not None and page.is_homepage:
        page.meta["hide"] = ["navigation", "toc"]
    markdown = SESSION.sub("```pycon\n>>> ", markdown)
    if HELP in markdown:
        markdown = markdown.replace(HELP, command_line())
    return INCLUDE.sub(lambda found: included(found[1], found[2]), markdown)


def included(path: str, heading: str | None) -> str:
    """A file of the repository, or its section under a heading; a program as a block of code."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".py"):
        return f"```python\n{text}```"
    if heading is None:
        return text
    _, found, rest = text.partition(f"\n## {heading}\n")
    if not found:
        raise ValueError(f"{path} must have a section {heading!r}")
    return rest.partition("\n## ")[0].strip()


def command_line() -> str:
    """The help of every command, as it prints it."""
    return "\n\n".join(pages_of())


def pages_of(*command: str) -> list[str]:
    """The help of a command, and below it those of its own commands."""
    shown = help_of(*command)
    heading = f"#{'#' * len(command)} {' '.join(command)}\n\n" if command else ""
    names = re.findall(r"^  ([a-z][\w-]*)  ", shown.partition("\nCommands:")[2], re.MULTILINE)
    below = [page for name in names for page in pages_of(*command, name)]
    return [f"{heading}```text\n{shown}\n```", *below]


def help_of(*command: str) -> str:
    """What `--help` prints, 80 columns wide."""
    from shuffle_accountant.cli import main

    wide = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
    with redirect_stdout(io.StringIO()) as shown, patch.dict(os.environ, wide):
        main([*command, "--help"])
    return shown.getvalue().rstrip()
