"""Importing is light, and a fresh process answers soon.

The processor's seconds are counted, and the least of a few runs: other work on the machine can only
make them longer.
"""

IMPORT = """
import sys, time
start = time.process_time()
import shuffle_accountant
print(time.process_time() - start)
"""
NUMPY = IMPORT.replace("shuffle_accountant", "numpy")
# A quarter of a second is meant for a machine that imports NumPy in this time.
USUAL_NUMPY = 0.07
HEAVY = ["scipy.stats", "numba", "matplotlib", "torch", "dp_accounting"]
HEAVY += ["pyfftw", "typer", "tqdm", "joblib"]

MODULES = f"""
import sys
import shuffle_accountant
print(*[name for name in {HEAVY!r} if name in sys.modules])
"""

ANSWER = """
import sys, time
start = time.process_time()
import shuffle_accountant as sa
one = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
sa.FourierAccountant().compose(one, count=4).epsilon(delta=1e-6)
print(time.process_time() - start)
assert "scipy.stats" not in sys.modules
"""


def least_seconds(run, code, limit):
    """Least time of up to eight runs; the first within the limit is enough."""
    least = float("inf")
    for _ in range(8):
        least = min(least, float(run(code)))
        if least < limit:
            break
    return least


def test_import_takes_less_than_a_quarter_of_a_second(in_a_fresh_process):
    slower = max(least_seconds(in_a_fresh_process, NUMPY, limit=USUAL_NUMPY) / USUAL_NUMPY, 1.0)
    assert least_seconds(in_a_fresh_process, IMPORT, limit=0.25) < 0.25 * slower


def test_import_leaves_the_heavy_modules_alone(in_a_fresh_process):
    assert in_a_fresh_process(MODULES).split() == []


def test_the_first_answer_takes_less_than_two_seconds(in_a_fresh_process):
    assert least_seconds(in_a_fresh_process, ANSWER, limit=2.0) < 2.0
