"""Sweeps give what plain loops give, in their order, whoever does the work."""

import io
import json
import math
import os
import signal
import subprocess
import sys
import threading

import joblib
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import shuffle_accountant as sa
from shuffle_accountant import progress

GRID = {"eps0": [1.0, -1.0, 3.0], "users": [50, 2000], "rounds": [1, 3]}


def cost(eps0, users, rounds, delta=1e-5):
    one = sa.ShuffleRound(sa.GeneralRandomizer(eps0), users=users)
    return sa.epsilon(one, delta=delta, rounds=rounds)


def by_loops():
    found = []
    for eps0 in GRID["eps0"]:
        for users in GRID["users"]:
            for rounds in GRID["rounds"]:
                point = {"eps0": eps0, "users": users, "rounds": rounds}
                if eps0 < 0:
                    message = f"eps0 must be a finite number >= 0, got {eps0!r}"
                    found.append(sa.SweepRecord(parameters=point, error=message))
                else:
                    found.append(sa.SweepRecord(parameters=point, answer=cost(**point)))
    return found


@pytest.fixture(scope="module")
def expected():
    return by_loops()


def test_a_sweep_is_the_loops(expected):
    found = sa.sweep(cost, GRID)
    assert found == expected
    assert [record.answer and record.answer.lower for record in found] == [
        record.answer and record.answer.lower for record in expected
    ]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_the_configuration_of_joblib_decides_who_works(expected, backend):
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert sa.sweep(cost, GRID) == expected


def test_workers_are_other_processes():
    def where(point):
        return os.getpid()

    assert {record.answer for record in sa.sweep(where, {"point": [1, 2]})} == {os.getpid()}
    elsewhere = {record.answer for record in sa.sweep(where, {"point": [1, 2]}, jobs=2)}
    assert os.getpid() not in elsewhere


@pytest.mark.slow
def test_on_a_dask_cluster(expected):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        assert sa.sweep(cost, GRID) == expected


def test_calibrations_can_be_swept_and_keep_their_evidence():
    grid = {"users": [100, 1000], "rounds": [1], "target_epsilon": [0.5, 1.0], "delta": [1e-6]}
    found = sa.sweep(sa.max_eps0, grid, jobs=2)
    for record in found:
        alone = sa.max_eps0(**record.parameters)
        assert record.answer == alone
        assert record.answer.evidence.bracket == alone.evidence.bracket
    unreachable = sa.sweep(
        sa.min_users, {"eps0": [40.0], "rounds": [1], "target_epsilon": [1.0], "delta": [1e-6]}
    )
    assert unreachable[0].error.startswith("target_epsilon must be")
    assert unreachable[0].answer is None


def test_records_come_one_by_one():
    asked = []

    def note(x):
        asked.append(x)
        return x

    records = sa.sweep_records(note, {"x": range(5)})
    assert next(records).answer == 0
    assert asked == [0]
    assert [record.answer for record in records] == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*have been cancelled:UserWarning")
def test_stopping_early_stops_the_workers():
    started, release = [], threading.Event()

    def wait(x):
        started.append(x)
        if x > 0:
            release.wait(600)
        return x

    with joblib.parallel_config(backend="threading", n_jobs=2):
        records = sa.sweep_records(wait, {"x": range(100)})
        assert next(records).answer == 0
        release.set()
        records.close()
    assert len(started) < 100


INTERRUPTED = """
import sys, time
import shuffle_accountant as sa

def slow(x):
    print("working", file=sys.stderr, flush=True)
    time.sleep(3600)

try:
    sa.sweep(slow, {"x": list(range(8))}, jobs=int(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are different there")
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_interruption_leaves_nothing_hanging(pytestconfig, tmp_path, jobs):
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, str(script), str(jobs)],
        cwd=pytestconfig.rootpath,
        env=os.environ | {"PYTHONPATH": str(pytestconfig.rootpath)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background jobs ignore interruptions, and so would their children
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stderr.readline().startswith("working")
        process.send_signal(signal.SIGINT)
        # the pipes end when the last worker that holds them has ended
        out, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    assert out == "interrupted\n"


def test_only_value_errors_are_records():
    def broken(x):
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        sa.sweep(broken, {"x": [1]})
    with pytest.raises(TypeError, match="eps0"):
        sa.sweep(cost, {"eps0": ["4"], "users": [10], "rounds": [1]})


def test_messages_are_one_line():
    def wordy(x):
        raise ValueError("two\n  lines")

    assert sa.sweep(wordy, {"x": [1]})[0].error == "two lines"


def test_records_are_json():
    answers = [
        sa.Bracket(lower=1.0, upper=math.inf, reduction="clones"),
        sa.min_users(eps0=0.1, rounds=1, target_epsilon=1.0, delta=1e-3),
        np.float32(0.5),
        [1, (2.0, None)],
        {"a": np.arange(2)},
        True,
        math.nan,
        sa.GeneralRandomizer(1.0),
        io.StringIO,
    ]
    records = sa.sweep(lambda i: answers[i], {"i": range(len(answers))})
    text = json.dumps([record.to_dict() for record in records], allow_nan=False)
    assert [record["answer"] for record in json.loads(text)] == [
        {"lower": 1.0, "upper": "inf", "reduction": "clones"},
        1,
        0.5,
        [1, [2.0, None]],
        {"a": [0, 1]},
        True,
        "nan",
        sa.GeneralRandomizer(1.0).to_dict(),
        "<class '_io.StringIO'>",
    ]
    assert json.loads(text)[3]["parameters"] == {"i": 3}
    assert json.loads(text)[3]["error"] is None


def test_numpy_axes_become_plain_numbers():
    grid = {"eps0": np.linspace(1, 2, 2), "users": np.array([10]), "rounds": (n for n in [1])}
    found = sa.sweep(cost, grid)
    assert [type(value) for value in found[1].parameters.values()] == [float, int, int]
    json.dumps([record.parameters for record in found])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3))
def test_the_grid_is_complete_and_in_order(sizes):
    grid = {f"x{i}": range(size) for i, size in enumerate(sizes)}
    found = [tuple(record.parameters.values()) for record in sa.sweep(lambda **point: None, grid)]
    assert len(found) == math.prod(sizes)
    assert found == sorted(set(found))


@pytest.mark.parametrize(
    ("grid", "jobs", "kind", "named"),
    [
        ([("x", [1])], None, TypeError, "grid"),
        ({"x": 1}, None, TypeError, "x"),
        ({"x": "clones"}, None, TypeError, "x"),
        ({"x": {"a": 1}}, None, TypeError, "x"),
        ({1: [1]}, None, TypeError, "grid"),
        ({"x": [1]}, 0, ValueError, "jobs"),
        ({"x": [1]}, 1.5, TypeError, "jobs"),
        ({"x": [1]}, "all", TypeError, "jobs"),
    ],
)
@pytest.mark.parametrize("ask", [sa.sweep, sa.sweep_records])
def test_bad_input(ask, grid, jobs, kind, named):
    with pytest.raises(kind, match=named) as caught:
        ask(cost, grid, jobs=jobs)
    assert "\n" not in str(caught.value)


def test_what_cannot_be_called():
    with pytest.raises(TypeError, match="function"):
        sa.sweep("cost", {"x": [1]})


class Terminal(io.StringIO):
    def __init__(self):
        super().__init__()
        self.half = threading.Event()

    def isatty(self):
        return True

    def write(self, text):
        written = super().write(text)
        if "sweeping:  50%" in self.getvalue():
            self.half.set()
        return written


def test_a_progress_bar_on_a_terminal_only(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "_TICK", 0.005)
    nowhere = io.StringIO()
    monkeypatch.setattr(sys, "stderr", nowhere)
    sa.sweep(lambda x: x, {"x": range(4)})
    assert "sweeping" not in nowhere.getvalue()
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    # the third of four answers takes as long as the bar needs to say so
    sa.sweep(lambda x: x != 2 or terminal.half.wait(300.0), {"x": range(4)})
    assert terminal.half.is_set()


def test_progress_is_said_to_a_function_or_not_at_all(monkeypatch):
    grid, shares = {"x": [1.0, 2.0, 4.0]}, []
    assert len(sa.sweep(lambda x: x, grid, progress=shares.append)) == 3
    assert shares == [1 / 3, 2 / 3, 1.0]
    monkeypatch.setattr("shuffle_accountant.sweeping.progress_bar", None)  # which would be called
    assert len(sa.sweep(lambda x: x, grid, progress=False)) == 3
    with pytest.raises(TypeError, match="progress must be a callable"):
        sa.sweep(lambda x: x, grid, progress="yes")
