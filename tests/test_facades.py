"""What is imported on first use has types, for mypy and for pyright, and `dir` knows of it."""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import shuffle_accountant as sa

PACKAGES = (
    "shuffle_accountant",
    "shuffle_accountant.baselines",
    "shuffle_accountant.design",
    "shuffle_accountant.certificates",
    "shuffle_accountant.interop",
    "shuffle_accountant.leakage",
    "shuffle_accountant.order",
    "shuffle_accountant.training",
)

# Imported by their names alone, because they need a library of their own.
BY_NAME = {"shuffle_accountant.training": {"flower", "opacus"}}

USER = """
import numpy as np
import shuffle_accountant as sa
from shuffle_accountant.leakage import reidentification

one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=3.0), users=1000)
published: float = sa.baselines.girgis.epsilon(eps0=3.0, users=1000, delta=1e-5)
rounds: float = sa.baselines.rdp.epsilon(one, rounds=4, delta=1e-6)
names: list[str] = [bound.name for bound in sa.baselines.BOUNDS]
chance: float = sa.leakage.qif.posterior_vulnerability_shuffle(users=10, categories=3)
named: sa.Bracket = reidentification.bound(sa.GeneralRandomizer(1.0), users=10)
told: sa.Bracket = sa.leakage.mutual_information.position([0.5, 0.5], [0.9, 0.1], users=10)
groups: sa.order.Groups = sa.order.Groups.from_scalar(np.arange(20.0), 2.0)
shuffler = sa.order.DSigmaShuffler(groups, alpha=2.0)
order = shuffler.permutation(7)
odds: float = sa.order.reidentification_bound(10, 2, eps0=1.0, alpha=1.0).odds
rows: tuple[sa.ReportRow, ...] = sa.report(sa.Protocol([(one, 3)]), delta=1e-5).rows
errors: list[float] = [
    row.rmse
    for row in sa.design.mean(users=9, dimension=2, target_epsilon=1.0, delta=1e-5).rows
]
ledger = sa.training.ShuffleLedger(sa.GeneralRandomizer(1.0), users=10)
proof = sa.FourierAccountant().compose(one).certificate(delta=1e-6)
bounds: list[float | None] = [row.epsilon for row in sa.compare(one, delta=1e-6)]
notice: str = str(sa.statement(one, delta=1e-6)) + sa.statement(one, delta=1e-6).theorem
proven: bool = sa.certificates.verify(sa.certificates.Certificate(proof.to_json())).verified


def draw() -> None:
    sa.plot.profile(one).set_title("a profile")


reveal_type(sa.plot.profile)
"""

# Every line is an error.
WRONG = """
sa.typo
sa.baselines.typo
sa.design.typo
sa.certificates.typo
sa.baselines.girgis.typo
sa.interop.typo
sa.leakage.typo
sa.leakage.qif.typo
sa.order.typo
sa.plot.typo
sa.training.typo
sa.baselines.girgis.epsilon(eps0="3", users=1000, delta=1e-5)
sa.leakage.qif.posterior_vulnerability_shuffle(users="10", categories=3)
sa.order.DSigmaShuffler(3, alpha=2.0)
sa.plot.profile("a round")
sa.FourierAccountant().epsilon(1e-6)
sa.ShuffleRound(sa.GeneralRandomizer(1.0), 1000)
sa.GeneralRandomizer(epsilon=4)
sa.epsilon(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=1000), 1e-6)
""".strip().splitlines()

CHECKERS = {
    "mypy": ["-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context"],
    "pyright": ["-m", "pyright", "--pythonpath", sys.executable],
}


@pytest.mark.parametrize("package", PACKAGES)
def test_dir_lists_what_there_is(package: str) -> None:
    module = importlib.import_module(package)
    if "__dir__" in vars(module):
        assert dir(module) == sorted({*module.__all__} | BY_NAME.get(package, set()))
    assert set(module.__all__) <= set(dir(module))
    missing = "nonsense"
    with pytest.raises(AttributeError, match=f"^module '{package}' has no attribute 'nonsense'$"):
        getattr(module, missing)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_what_is_loaded_on_first_use_is_the_module() -> None:
    for name in (
        *(
            "baselines",
            "certificates",
            "deployment",
            "design",
            "interop",
            "leakage",
            "order",
            "training",
        ),
    ):
        assert getattr(sa, name) is importlib.import_module(f"shuffle_accountant.{name}")
    assert sa.plot is importlib.import_module("shuffle_accountant.reports.plot")


@pytest.mark.slow
@pytest.mark.parametrize("checker", CHECKERS)
def test_types_of_a_user_s_scripts(
    checker: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """One passes; in the other each line uses what does not exist or fit, and is an error."""
    if importlib.util.find_spec(checker) is None:
        pytest.skip(f"{checker} is not installed (extra 'test')")
    lines = ["import shuffle_accountant as sa", *WRONG]
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(USER, encoding="utf-8")
    wrong.write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, *CHECKERS[checker], str(right), str(wrong)]
    root = pytestconfig.rootpath
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if checker == "pyright" and not re.search(r"\d+ errors?,", done.stdout):
        pytest.skip(f"pyright must fetch its program once, and cannot here: {done.stderr[-200:]}")
    found = re.findall(r"(\w+)\.py:(\d+):(?:\d+ - | )error:", done.stdout)
    assert {(name, int(line)) for name, line in found} == {
        ("wrong", line) for line in range(2, len(lines) + 1)
    }, done.stdout
    (revealed,) = re.findall(r".*(?:Revealed type|Type of).*", done.stdout)
    assert re.search(r'"(def )?\(subject: .*-> .*Axes"', revealed)
