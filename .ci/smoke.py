"""Does an installed package answer? No test tools needed: python .ci/smoke.py VERSION.

Numbers are held against a closed form, against the middle of a bracket a hundred times finer, and
against the same question with other transforms.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import shuffle_accountant as sa

TREE = Path(__file__).resolve().parent.parent / "shuffle_accountant"


def holds(bracket: sa.Bracket, value: float, what: str) -> None:
    """A bracket contains a value, to the digits that it is written with."""
    assert bracket.lower * (1 - 1e-6) <= value <= bracket.upper * (1 + 1e-6), (what, bracket, value)
    print(f"{what}: {bracket}")


def main(expected: str) -> None:
    """All checks."""
    assert TREE not in Path(sa.__file__).parents, f"not the installed package: {sa.__file__}"
    assert sa.__version__ == version("shuffle-accountant") == expected, sa.__version__
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
    spent = sa.epsilon(one, delta=1e-6, rounds=4)
    holds(spent, 0.853874, "four rounds")
    # nobody hides a single user: binary randomized response itself
    alone = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=1)
    holds(alone.delta(epsilon=0.5), (math.e - math.exp(0.5)) / (1 + math.e), "one user")
    survey = sa.ShuffleRound(sa.RandomizedResponse(categories=4, eps0=1.0), users=10)
    assert survey.attained(epsilon=0.6).lower <= survey.delta(epsilon=0.6).upper
    state = json.loads(json.dumps(sa.FourierAccountant().compose(one, count=4).state_dict()))
    assert sa.FourierAccountant.from_state_dict(state).epsilon(delta=1e-6) == spent
    question = ["epsilon", "--eps0", "4", "--users", "10000", "--rounds", "4", "--delta", "1e-6"]
    command = [sys.executable, "-m", "shuffle_accountant", *question, "--json"]
    done = subprocess.run(command, cwd=sys.prefix, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert (told["upper"], told["version"]) == (spent.upper, expected)
    print(f"shuffle-accountant {expected} answers on Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main(sys.argv[1])
