"""The reference server: rounds of messages, charged and estimated, also when it is killed."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import shuffle_accountant as sa
from shuffle_accountant.training import BudgetExceeded
from tests.deployment_cases import MECHANISMS


def deployment_of(randomizer=None, *, users=1000, rounds=3, colluding=0, target=1.0):
    randomizer = randomizer or sa.RandomizedResponse(categories=4, eps0=2.0)
    one = sa.ShuffleRound(randomizer, users=users, colluding=colluding)
    return sa.Deployment(round=one, rounds=rounds, target_epsilon=target, delta=1e-6)


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/survey.db"
    return request.getfixturevalue("empty_database")


@pytest.mark.parametrize("kind", MECHANISMS)
def test_estimates_are_those_of_all_messages_in_parts(url, kind):
    deployment = deployment_of(MECHANISMS[kind], users=300, target=8.0)
    rng = np.random.default_rng(5)
    values = np.arange(300) % deployment.mechanism.categories
    messages = deployment.randomize(values, rng)
    server = sa.deployment.Server(url, deployment)
    assert server.receive(messages[:100]) == 100
    assert server.receive(messages[100:].tolist()) == 200  # as from JSON
    assert server.receive(messages[:0]) == 0
    assert server.waiting == 300
    found, wanted = server.close_round(), deployment.estimate(messages)
    assert np.array_equal(found.values, wanted.values)
    assert found.users == 300
    assert server.waiting == 0
    assert np.array_equal(server.estimates()[1].values, wanted.values)
    assert len(server.ledger) == 1


def test_the_shuffled_file_has_the_same_messages_in_another_order(url, tmp_path):
    deployment = deployment_of()
    server = sa.deployment.Server(url, deployment)
    sent = np.sort(deployment.randomize(np.arange(1000) % 4))
    server.receive(sent)
    server.close_round(shuffled=tmp_path / "round.npy")
    bag = np.load(tmp_path / "round.npy")
    assert np.array_equal(np.sort(bag), sent)
    assert not np.array_equal(bag, sent)  # 1000! orders, of which 1/(4 counts) look sorted
    assert [path.name for path in tmp_path.iterdir() if "npy" in path.name] == ["round.npy"]


def test_low_batches_wait_are_skipped_or_are_charged_for(url):
    deployment = deployment_of()
    messages = deployment.randomize(np.zeros(1000, dtype=int))
    server = sa.deployment.Server(url, deployment)
    server.receive(messages[:999])
    with pytest.raises(ValueError, match=r"minimum_batch = 1000, got 999; they wait for more"):
        server.close_round()
    assert server.waiting == 999
    assert len(server.ledger) == 0
    server = sa.deployment.Server(url, deployment, low_batch="skip")
    with pytest.raises(ValueError, match="got 999; they were skipped"):
        server.close_round()
    assert server.waiting == 0
    assert len(server.ledger) == 0
    assert server.estimates() == {}
    server = sa.deployment.Server(url, deployment, minimum_batch=900)
    server.receive(messages[:900])
    assert server.close_round().users == 900
    spent = sa.ShuffleRound(deployment.round.randomizer, users=900).epsilon(delta=1e-6)
    assert server.ledger.epsilon().upper == spent.upper
    assert list(server.estimates()) == [2]


def test_more_messages_than_users_cost_what_the_deployment_says(url):
    deployment = deployment_of(colluding=10)
    server = sa.deployment.Server(url, deployment)
    server.receive(deployment.randomize(np.zeros(1200, dtype=int)))
    server.close_round()
    honest = sa.ShuffleRound(deployment.round.randomizer, users=990).epsilon(delta=1e-6)
    assert server.ledger.epsilon().upper == honest.upper


def test_no_more_rounds_than_the_deployment_has_and_none_over_the_budget(url, tmp_path):
    deployment = deployment_of(rounds=1)
    messages = deployment.randomize(np.zeros(1000, dtype=int))
    server = sa.deployment.Server(url, deployment)
    server.receive(messages)
    server.close_round()
    server.receive(messages)
    with pytest.raises(ValueError, match="at most 1, and 1 have been answered"):
        server.close_round()
    one = deployment_of(rounds=1, target=deployment.bracket.upper * 1.001)
    other = sa.deployment.Server(f"sqlite:///{tmp_path}/b.db", one, minimum_batch=10)
    other.receive(messages[:10])
    with pytest.raises(BudgetExceeded, match="a round of 10 messages would exceed"):
        other.close_round()
    other.receive(messages[10:])
    assert other.close_round().users == 1000


def test_bad_messages_and_other_deployments_are_refused(url):
    server = sa.deployment.Server(url, deployment_of())
    with pytest.raises(ValueError, match="messages must be integers in"):
        server.receive([0, 4])
    assert server.waiting == 0
    with pytest.raises(ValueError, match=r"ledger 'deployment' is of another configuration"):
        sa.deployment.Server(url, deployment_of(users=2000))
    with pytest.raises(ValueError, match="deployment must be the one of server 'deployment'"):
        sa.deployment.Server(url, deployment_of(rounds=2))
    with pytest.raises(ValueError, match=r"minimum_batch must be an integer >= 11, got 10"):
        sa.deployment.Server(url, deployment_of(colluding=10), minimum_batch=10)
    with pytest.raises(ValueError, match="low_batch must be"):
        sa.deployment.Server(url, deployment_of(), low_batch="answer")
    random = sa.ShuffleRound(
        sa.RandomizedResponse(categories=4, eps0=2.0),
        users=sa.Binomial(trials=1000, probability=0.9),
    )
    secret = sa.Deployment(round=random, rounds=1, target_epsilon=1.0, delta=1e-6)
    with pytest.raises(ValueError, match="must have a fixed number of users who send one message"):
        sa.deployment.Server(url, secret)


@pytest.mark.parametrize("step", ["step", "_tallied"])
def test_a_round_that_was_cut_off_is_answered_once_and_as_it_was(url, step, monkeypatch):
    deployment = deployment_of()
    messages = deployment.randomize(np.arange(1000) % 4, np.random.default_rng(1))
    server = sa.deployment.Server(url, deployment)
    server.receive(messages)
    stopped = server.ledger if step == "step" else server
    with monkeypatch.context() as patch:
        patch.setattr(stopped, step, lambda *_, **__: os.abort_now(), raising=False)
        with pytest.raises(AttributeError, match="abort_now"):
            server.close_round()
    again = sa.deployment.Server(url, deployment)
    again.receive(messages[:500])  # belongs to the next round
    found = again.close_round()
    assert found.users == 1000
    assert len(again.ledger) == 1
    assert again.waiting == 500
    assert np.array_equal(found.values, deployment.estimate(messages).values)


_CHILD = """
    import sys, numpy as np, shuffle_accountant as sa
    url, path = sys.argv[1:]
    deployment = sa.Deployment.load(path)
    server = sa.deployment.Server(url, deployment)
    messages = deployment.randomize(np.zeros(50, dtype=int))
    while True:
        print(server.receive(messages), flush=True)
        if server.waiting >= 1000:
            print(-server.close_round().users, flush=True)
"""


@pytest.mark.slow
def test_a_killed_server_loses_nothing_it_acknowledged(url, tmp_path):
    deployment = deployment_of(users=1000, rounds=30, target=20.0)
    (tmp_path / "deployment.json").write_text(deployment.to_json(), encoding="utf-8")
    received = answered = runs = 0
    for wait in (0.0, 0.05, 0.11, 0.2):
        child = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_CHILD), url, str(tmp_path / "deployment.json")],
            stdout=subprocess.PIPE,
            text=True,
        )
        first = child.stdout.readline()  # it is at work
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        lines = [int(one) for one in [first, *child.stdout.read().splitlines()] if one]
        child.wait()
        received += sum(one for one in lines if one > 0)
        answered += sum(-one for one in lines if one < 0)
        runs += 1
    server = sa.deployment.Server(url, deployment)
    with contextlib.suppress(ValueError):  # until fewer wait than a round has
        while True:  # first the round that was cut off before a kill: it does not count as waiting
            server.close_round()
    assert server.waiting < 1000
    kept = sum(one.users for one in server.estimates().values()) + server.waiting
    # at each kill one message may be in, and one round answered, of which nobody heard
    assert received <= kept <= received + 50 * runs
    assert answered <= kept
    assert len(server.ledger) == len(server.estimates())


def test_changes_and_frequent_categories(url):
    deployment = deployment_of(users=40_000, target=9.0)
    rng = np.random.default_rng(3)
    weeks = [
        deployment.estimate(deployment.randomize(rng.choice(4, 40_000, p=shares), rng))
        for shares in ([0.7, 0.3, 0.0, 0.0], [0.4, 0.3, 0.3, 0.0])
    ]
    change = weeks[1].change_since(weeks[0])
    lower, upper = change.interval()
    truth = np.array([-0.3, 0.0, 0.3, 0.0])
    assert np.all((lower <= truth + 0.01) & (truth - 0.01 <= upper))
    assert upper[0] < 0.0 < lower[2]
    # of each week's interval half of the failure probability, and the ends of the differences
    before, after = (one.interval(confidence=0.975) for one in weeks)
    assert np.allclose(lower, after[0] - before[1])
    assert np.allclose(upper, after[1] - before[0])
    assert weeks[0].frequent(0.2).tolist() == [0, 1]
    assert weeks[0].frequent(0.9).size == 0
    with pytest.raises(ValueError, match=r"earlier must have 4 categories, got 3"):
        change.change_since(
            sa.RandomizedResponse(categories=3, eps0=1.0).estimate_from([1, 2, 3], 6)
        )


@pytest.mark.parametrize("arrivals", [1, 7])
def test_a_cluster_tallies_the_same_messages(url, tmp_path, monkeypatch, arrivals):
    """Dask's tasks, of 500 messages or of all, read from the database what one process reads."""
    pytest.importorskip("dask", reason="Dask is not installed (extra 'dask')")
    monkeypatch.setattr("shuffle_accountant.deployment.server._TASK", 500)
    deployment = deployment_of(users=1000)
    messages = deployment.randomize(np.arange(1200) % 4, np.random.default_rng(2))
    closed = []
    for name, cluster in (("alone", False), ("cluster", True)):
        server = sa.deployment.Server(url, deployment, name=name)
        for part in np.array_split(messages, arrivals):
            server.receive(part)
        file = tmp_path / f"{name}.npy"
        closed.append(server.close_round(shuffled=file, dask=cluster))
        assert np.array_equal(np.sort(np.load(file)), np.sort(messages))
        assert server.waiting == 0
    assert np.array_equal(closed[0].values, deployment.estimate(messages).values)
    assert np.array_equal(closed[0].values, closed[1].values)
    assert closed[0].users == closed[1].users == 1200
    with pytest.raises(TypeError, match="dask"):
        sa.deployment.Server(url, deployment, name="third").close_round(dask="yes")


def test_a_round_that_another_process_closed_meanwhile_keeps_its_tally(url, monkeypatch):
    deployment = deployment_of(users=1000)
    messages = deployment.randomize(np.arange(1000) % 4, np.random.default_rng(2))
    slow, quick = (sa.deployment.Server(url, deployment) for _ in range(2))
    slow.receive(messages)
    parts = slow._parts

    def overtaken(number):  # between the cut and the first look at the messages
        quick.close_round()
        return parts(number)

    monkeypatch.setattr(slow, "_parts", overtaken)
    assert np.array_equal(slow.close_round().values, deployment.estimate(messages).values)
    assert len(slow.ledger) == 1
    assert len(slow.estimates()) == 1
    slow.receive(messages)
    with pytest.raises(ValueError, match="another process has closed round 2"):
        slow.close_round(shuffled="never.npy")


@pytest.mark.parametrize("cluster", [False, True])
def test_large_and_small_messages_arrive_in_parts_of_their_own(url, tmp_path, cluster):
    """Messages beyond 32 bits beside others: none of them may become a float."""
    pytest.importorskip("dask", reason="Dask is not installed (extra 'dask')")
    oracle = sa.LocalHashing(categories=5, eps0=3.0)
    deployment = deployment_of(oracle, users=1000, target=9.0)
    messages = deployment.randomize(np.arange(1000) % 5, np.random.default_rng(4))
    messages[:9, 0] = np.arange(9)  # seeds that fit into a byte
    server = sa.deployment.Server(url, deployment)
    server.receive(messages[:9])
    server.receive(messages[9:])
    file = tmp_path / "all.npy"
    found = server.close_round(shuffled=file, dask=cluster)
    assert np.array_equal(found.values, deployment.estimate(messages).values)
    shown = np.load(file)
    assert shown.dtype.kind in "iu"
    assert sorted(map(tuple, shown.tolist())) == sorted(map(tuple, messages.tolist()))
