"""The randomizers for browsers and Node against test vectors of every program."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import shuffle_accountant as sa
from tests.deployment_cases import MECHANISMS, deployment

DEVICES = Path(sa.__file__).parent / "deployment" / "devices"


def npm(*arguments, folder, limit=120):
    return subprocess.run(
        ["npm", *arguments], cwd=folder, capture_output=True, text=True, timeout=limit, check=False
    )


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The folder with its compiler; skips where neither Node nor a compiler can be had."""
    if shutil.which("npm") is None:
        pytest.skip("needs Node and npm")
    folder = tmp_path_factory.mktemp("devices")
    for path in DEVICES.iterdir():
        shutil.copy(path, folder)
    try:
        found = npm("install", "--no-audit", "--no-fund", folder=folder)
    except subprocess.TimeoutExpired:
        pytest.skip("npm did not answer")
    if found.returncode:
        pytest.skip(f"npm has no compiler: {found.stderr[-200:]}")
    return folder


def test_every_program_passes_its_vectors(compiled, tmp_path):
    paths = []
    for number, mechanism in enumerate([*MECHANISMS.values(), *large()]):
        one = deployment(mechanism)
        made = {"program": one.program.to_dict(), "vectors": one.vectors(count=1_000)}
        paths.append(tmp_path / f"{number}.json")
        paths[-1].write_text(json.dumps(made), encoding="utf-8")
    found = npm("test", "--", *map(str, paths), folder=compiled)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("1000 vectors of") == len(paths)
    altered = json.loads(paths[0].read_text(encoding="utf-8"))
    altered["vectors"][7]["message"] = (altered["vectors"][7]["message"] + 1) % 5
    paths[0].write_text(json.dumps(altered), encoding="utf-8")
    found = npm("test", "--", str(paths[0]), folder=compiled)
    assert found.returncode == 1
    assert "vector 7:" in found.stderr


def large():
    """Programs whose numbers go beyond 32 bits."""
    yield sa.HadamardResponse(categories=2**40, eps0=1.0)
    yield sa.RandomizedResponse(categories=10**15, eps0=40.0)
    yield sa.LocalHashing(categories=10**12, eps0=2.0, buckets=7)
