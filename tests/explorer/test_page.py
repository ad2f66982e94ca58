"""The explorer in a real browser: sliders are moved, and the numbers on the page compared."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.explorer import answers, settings
from shuffle_accountant.explorer.settings import Deployment, Training

pytest.importorskip("marimo", reason="marimo is not installed (extra 'explore')")
browsing = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

PATIENCE = 120_000  # milliseconds; a page's first answers wait for compilers and caches
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Without a sandbox, which containers do not allow, and without looking for updates.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """The system's Chromium, or the one that Playwright brought."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    with browsing.sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(executable_path=found, args=list(FLAGS))
        except browsing.Error as refused:
            pytest.skip(f"no Chromium can be started: {str(refused).strip().splitlines()[0]}")
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def address(pytestconfig: pytest.Config) -> Iterator[str]:
    """Where the command serves the page."""
    command = [sys.executable, "-m", "shuffle_accountant", "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(
        command, cwd=pytestconfig.rootpath, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        words = server.stdout.readline().split()
        yield next(word for word in words if word.startswith("http://"))
        server.terminate()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        opened = context.new_page()
        opened.set_default_timeout(PATIENCE)
        opened.goto(address)
        yield opened


def shows(page: Any, chosen: Deployment) -> None:
    """Wait until the page has the answers of these choices."""
    bracket = sa.epsilon(chosen.protocol, delta=chosen.delta)
    epsilon = page.locator("#epsilon")
    browsing.expect(epsilon).to_have_text(" to ".join(bracket.ends()), timeout=PATIENCE)
    browsing.expect(page.locator("#reduction")).to_have_text(bracket.reduction, timeout=PATIENCE)
    local = f"{chosen.rounds * chosen.eps0:g}"
    browsing.expect(page.locator("#local")).to_have_text(local, timeout=PATIENCE)
    wanted = answers.target_met(chosen)
    browsing.expect(page.locator("#target")).to_have_text(wanted, timeout=PATIENCE)
    for row in (*answers.attack_rows(chosen), *answers.error_rows(chosen)):
        line = page.locator("tr").filter(has_text=next(iter(row.values())))
        for cell in row.values():
            browsing.expect(line.filter(has_text=cell).first).to_be_visible(timeout=PATIENCE)


def move(page: Any, slider: str, key: str, steps: int = 1) -> None:
    """Move a slider by its keys."""
    thumb = page.get_by_role("slider", name=slider, exact=True)
    thumb.focus()
    for _ in range(steps):
        thumb.press(key)


def test_sliders_move_the_numbers(page: Any) -> None:
    first = Deployment()
    shows(page, first)
    picture = page.get_by_alt_text("δ against ε").get_attribute("src")
    # one value further: twice the users
    more = replace(first, users=20_000)
    assert settings.USERS.index(more.users) == settings.USERS.index(first.users) + 1
    move(page, "users", "ArrowRight")
    shows(page, more)
    browsing.expect(page.get_by_alt_text("δ against ε")).not_to_have_attribute("src", picture)
    # another delta and another eps0, then another randomizer
    other = replace(more, delta=1e-7, eps0=3.5)
    move(page, "δ", "ArrowLeft")
    move(page, "ε0 (nats)", "ArrowLeft", steps=2)
    shows(page, other)
    page.get_by_role("combobox").first.select_option("general")
    any_randomizer = replace(other, randomizer="general")
    shows(page, any_randomizer)
    browsing.expect(page.get_by_text("n/a: needs a randomizer that is named")).to_be_visible()


def test_targets_arrivals_and_colluders_have_sliders(page: Any) -> None:
    shows(page, Deployment())
    move(page, "share who send at least", "ArrowLeft", steps=2)
    move(page, "share who collude", "ArrowRight")
    move(page, "target ε", "ArrowLeft")
    chosen = replace(Deployment(), arrivals=0.95, colluding=0.001, target=0.75)
    shows(page, chosen)


def test_what_users_send_how_it_is_shuffled_and_other_rounds_can_be_chosen(page: Any) -> None:
    shows(page, Deployment())
    page.get_by_role("combobox").nth(1).select_option("two messages")
    twice = replace(Deployment(), sending="two messages")
    shows(page, twice)
    batches = "works in two batches"
    page.get_by_role("combobox").nth(2).select_option(batches)
    refused = page.locator("#refused")
    browsing.expect(refused).to_contain_text("one message each", timeout=PATIENCE)
    page.get_by_role("combobox").nth(1).select_option("one message")
    shows(page, replace(Deployment(), shuffler=batches))
    move(page, "threshold", "ArrowRight")
    counts = answers.epsilon_of(settings.Thresholds(threshold=50))
    browsing.expect(page.locator("#threshold")).to_have_text(counts.ends, timeout=PATIENCE)
    move(page, "ε0 of a copy", "ArrowRight")
    copies = answers.epsilon_of(settings.Memoised(instantaneous=2.25))
    browsing.expect(page.locator("#copies")).to_have_text(copies.ends, timeout=PATIENCE)


def test_the_code_can_be_copied_and_gives_what_the_page_shows(page: Any) -> None:
    chosen = replace(Deployment(), rounds=10)
    move(page, "rounds", "ArrowRight")
    shows(page, chosen)
    # several boxes around the code have a button each; that of the outermost lies on top
    block = page.locator(".codehilite-wrapper", has_text="ShuffleRound").filter(visible=True).first
    browsing.expect(block.locator("pre")).to_have_text(chosen.python, use_inner_text=True)
    block.hover()
    block.get_by_role("button").last.click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == chosen.python.strip()
    page.get_by_role("tab", name="on the command line").first.click()
    lines = page.locator("pre", has_text="shuffle-accountant epsilon").filter(visible=True)
    browsing.expect(lines).to_have_text(chosen.command, use_inner_text=True)


def test_training_has_sliders_of_its_own(page: Any, tmp_path: Path) -> None:
    shows(page, Deployment())
    longer = replace(Training(), epochs=10)
    move(page, "epochs", "ArrowRight")
    for row in answers.sampling_rows(longer):
        line = page.locator("tr").filter(has_text=row["a record is in"])
        browsing.expect(line).to_contain_text(row["epsilon"], timeout=PATIENCE)
    # nothing on the page is an error
    assert page.get_by_text("Traceback").count() == 0
    seen = tmp_path / "page.png"
    page.screenshot(path=seen, full_page=True)
    assert seen.stat().st_size > 10_000
