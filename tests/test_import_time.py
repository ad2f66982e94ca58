"""Importing is light, and so is a first answer: what is slow to import is not needed for them.

How long both take is measured by `python -m benchmarks --only start_up`.
"""

HEAVY = ["scipy.stats", "numba", "matplotlib", "torch", "dp_accounting"]
HEAVY += ["typer", "tqdm", "joblib"]

PROGRAM = f"""
import sys
import shuffle_accountant as sa
print(*[name for name in {HEAVY!r} if name in sys.modules])
one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
sa.FourierAccountant().compose(one, count=4).epsilon(delta=1e-6)
assert "scipy.stats" not in sys.modules
"""


def test_import_leaves_the_heavy_modules_alone(in_a_fresh_process):
    assert in_a_fresh_process(PROGRAM).split() == []
