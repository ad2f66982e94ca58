"""What a release states, it states once; and what it says about its files is so."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import shuffle_accountant as sa
from shuffle_accountant.cli import main

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def module_at(path: Path) -> ModuleType:
    """A script of the repository that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_version_is_written_once_and_stated_everywhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"]["path"] == "shuffle_accountant/bracket.py"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == sa.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    version, date = re.search(r"^## \[(\d\S*)\] - (\S+)$", changelog, re.MULTILINE).groups()
    assert version == sa.__version__
    assert re.search(r"^date-released: (\S+)$", citation, re.MULTILINE)[1] == date
    linked = re.findall(r'^    url: "(\S+)"$', citation, re.MULTILINE)
    assert linked == list(project["project"]["urls"].values())
    written = [
        path
        for path in (ROOT / "shuffle_accountant").rglob("*.py")
        if f'"{sa.__version__}"' in path.read_text(encoding="utf-8")
    ]
    assert [path.name for path in written] == ["bracket.py"]
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=10)
    assert one.delta(epsilon=0.5).to_dict()["version"] == sa.__version__
    assert main(["delta", "--eps0", "1", "--users", "10", "--epsilon", "0.5", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == sa.__version__


def test_every_version_has_a_date() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", changelog, re.MULTILINE)
    assert len(headings) >= 2
    for heading in headings:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d{2}-\d{2}|\[Unreleased\]", heading)


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_floors_have_one_release_for_each_dependency(python: str) -> None:
    stated = module_at(ROOT / ".ci" / "floors.py")
    floors = dict(text.split("==") for text in stated.floors(python))
    assert {"numpy", "scipy", "numba", "joblib", "tqdm", "typer"} == set(floors)
    if python == "3.11":
        assert floors["numpy"] == "1.26"
    if python == "3.13":
        assert floors["numpy"] == "2.1"  # the first with wheels for it
    assert stated.package_version() == sa.__version__


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs git in a small tree with a release, where a job's room imports one file of three."""
    monkeypatch.delenv("CI_ALL", raising=False)
    package = tmp_path / "shuffle_accountant"
    for name, text in {
        "__init__": "from shuffle_accountant.far import thing",
        "explorer/__init__": "",
        "explorer/app": "import shuffle_accountant\nfrom shuffle_accountant.near import thing",
        "near": "from shuffle_accountant import base",
        "base": "",
        "far": "",
    }.items():
        (package / name).parent.mkdir(exist_ok=True, parents=True)
        (package / f"{name}.py").write_text(text + "\n")

    def git(*arguments: str) -> str:
        who = ["-c", "user.name=somebody", "-c", "user.email=somebody@example.org"]
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *arguments],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    git("add", ".")
    git("commit", "--quiet", "--message", "a release")
    return git


def test_environments_are_made_where_what_they_test_has_changed(
    repository: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = module_at(ROOT / ".ci" / "changed.py")
    package = tmp_path / "shuffle_accountant"

    def reason() -> tuple[bool, str]:
        run, why = changes.reason("explorer", tmp_path)
        return run, why.partition(" since ")[0]

    assert reason() == (True, "no commit to compare with")
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "passed").write_text("0" * 40 + "\n")  # not in a shallow clone
    assert reason() == (True, "no commit to compare with")
    (tmp_path / ".ci" / "passed").write_text(repository("rev-parse", "HEAD") + "\n")
    unchanged = (False, "neither its rooms nor what they import changed")
    assert reason() == unchanged
    # what the facade hands out is not what the page imports
    (package / "far.py").write_text("thing = 1\n")
    assert reason() == unchanged
    # nor what a file that it imports imports, which has tests of its own
    (package / "base.py").write_text("thing = 1\n")
    assert reason() == unchanged
    # not yet committed
    (package / "near.py").write_text("thing = 1\n")
    assert reason() == (True, "shuffle_accountant/near.py and 0 more changed")
    # on a branch what main has is no change, what the branch has is one
    repository("commit", "--quiet", "--all", "--message", "a change")
    repository("checkout", "--quiet", "-b", "branch")
    (package / "far.py").write_text("thing = 2\n")
    repository("commit", "--quiet", "--all", "--message", "another one")
    assert reason() == unchanged
    (package / "explorer" / "new.py").write_text("")
    assert reason() == (True, "shuffle_accountant/explorer/new.py and 0 more changed")
    monkeypatch.setenv("CI_ALL", "1")
    assert reason() == (True, "CI_ALL is set")


def test_every_job_has_files_and_what_they_import() -> None:
    changes = module_at(ROOT / ".ci" / "changed.py")
    for job, patterns in changes.JOBS.items():
        assert all(list(ROOT.glob(pattern)) for pattern in patterns), job
    assert "shuffle_accountant/rounds/allocation.py" in changes.needed("training")
    assert "shuffle_accountant/rounds/shuffle.py" in changes.needed("flower")
    assert "shuffle_accountant/order/groups.py" not in changes.needed("flower")


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """What the site is built with."""
    pytest.importorskip("mkdocs", reason="the site needs MkDocs (extra 'docs')")
    monkeypatch.setattr(sys, "path", [*sys.path])
    return module_at(DOCS / "hooks.py")


def test_pages_that_nobody_listed_are_in_the_navigation(hooks: ModuleType, tmp_path: Path) -> None:
    for name in ("guides/a.md", "guides/b.md", "notebooks/01.ipynb"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"cells": [{"source": ["# First steps\\n", "text"]}]}')
    nav = [{"Home": "index.md"}, {"Guides": [{"First": ["guides/b.md"]}]}, {"Notebooks": []}]
    assert hooks.complete(nav, tmp_path, tmp_path / "notebooks") == [
        {"Home": "index.md"},
        {"Guides": [{"First": ["guides/b.md"]}, "guides/a.md"]},
        {"Notebooks": [{"First steps": "notebooks/01.ipynb"}]},
    ]


def test_pages_with_diagrams_load_mermaid_from_the_site(hooks: ModuleType) -> None:
    page = SimpleNamespace(url="start/shuffle-model/")
    plain = "<html><head></head><body></body></html>"
    assert hooks.on_post_page(plain, page) == plain
    drawn = hooks.on_post_page(plain.replace("<body>", '<body><pre class="mermaid">'), page)
    assert '<script src="../../assets/mermaid.min.js"></script></head>' in drawn


@pytest.mark.slow
def test_the_page_of_the_command_line_has_every_command(hooks: ModuleType) -> None:
    from shuffle_accountant.cli import COMMANDS

    page = hooks.on_page_markdown("<!-- command line -->")
    for command in COMMANDS:
        assert f"## {command.__name__}\n" in page
        assert f"Usage: shuffle-accountant {command.__name__} [OPTIONS]" in page
    for command in ("create", "step", "show", "verify"):
        assert f"### ledger {command}\n" in page


def test_pages_include_files_and_sections(hooks: ModuleType) -> None:
    whole: Callable[[str], str] = hooks.on_page_markdown
    assert "## [0.1.0]" in whole("<!-- include: CHANGELOG.md -->")
    errata = whole('<!-- include: benchmarks/README.md "Errors found in print" -->')
    assert "Lemma A.4" in errata
    assert "## " not in errata
    with pytest.raises(ValueError, match="must have a section 'nonsense'"):
        whole('<!-- include: benchmarks/README.md "nonsense" -->')


@pytest.mark.slow
def test_the_picture_of_the_readme_shows_certified_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The data of its axes, held against the library and against what theorems allow."""
    pictures = module_at(DOCS / "pictures.py")
    monkeypatch.setattr(pictures, "USERS", pictures.USERS[::5])  # from 1 to 1e9 as well
    assert (pictures.USERS[0], pictures.USERS[-1]) == (1, 10**9)
    (axes,) = pictures.amplification().axes
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    certified = dict(lines["certified"])
    assert set(lines) >= {"certified", "without a shuffler", "closed form of 2022"}
    assert certified[1] == pytest.approx(4.0, rel=1e-5)  # nobody to hide among
    assert max(certified.values()) <= 4.0 * (1 + 1e-9)
    for users, epsilon in lines["closed form of 2022"]:
        assert certified[users] <= epsilon
    assert (DOCS / "pictures" / "amplification.png").stat().st_size > 10_000


def test_the_reference_has_every_public_name() -> None:
    pages = sorted((DOCS / "reference").glob("*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    documented = set(re.findall(r"^::: shuffle_accountant\.(\S+)$", text, re.MULTILINE))
    inside = {name.split(".")[0] for name in documented if "." in name}
    public = {f"training.{name}" for name in sa.training.__all__} | set(sa.__all__)
    public |= {f"certificates.{name}" for name in sa.certificates.__all__}
    # `plot` is documented as reports.plot, and what `deployment` holds by its own name
    assert public - documented - inside <= {"plot", "deployment"}


def test_extras_are_installed_from_a_clone() -> None:
    """There is no release to install by name: `pip install '.[extra]'` is what works."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(project["project"]["optional-dependencies"])
    places = [ROOT / name for name in ("README.md", "docs", "notebooks", "benchmarks")]
    places += [ROOT / "shuffle_accountant", ROOT / "tests"]
    files = [
        path
        for place in places
        for path in ([place] if place.is_file() else sorted(place.rglob("*")))
        if path.suffix in (".md", ".py", ".ipynb") and path != Path(__file__)
    ]
    named = re.compile(r"shuffle[-_]accountant\\?\[")
    found = 0
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert named.search(text) is None, path
        for asked in re.findall(r"pip\s+install\s+(?:-\S+\s+)?'\.\[([\w,-]+)\]'", text):
            assert set(asked.split(",")) <= extras, path
            found += 1
    assert found >= 12
