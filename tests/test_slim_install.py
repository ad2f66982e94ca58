"""Without Numba every question is answered, by brackets that meet those with it."""

import json

import pytest

BLOCK = """
import sys
sys.modules.update(numba=None)  # importing it now fails
"""
ANSWERS = """
import json
import numpy as np
import shuffle_accountant as sa

channel = sa.DiscreteRandomizer([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2]])
subjects = [
    *(sa.ShuffleRound(one, users=1_000) for one in (
        sa.GeneralRandomizer(eps0=2.0),
        sa.RandomizedResponse(categories=16, eps0=2.0),
        sa.LaplaceRandomizer(eps0=2.0),
        channel,
    )),
    sa.NoiseMessages(categories=3, dummies=sa.Poisson(mean=200.0)),
    sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=2.0), steps=10),
    sa.ShuffledBatches(noise_multiplier=2.0, steps=10),
]
ends = [(e.lower, e.upper) for e in (sa.epsilon(one, delta=1e-5, rounds=3) for one in subjects)]
hashed = sa.LocalHashing(categories=4, eps0=2.0)
messages = hashed.randomize(np.arange(400) % 4, rng=np.random.default_rng(1))
groups = sa.order.Groups.from_scalar(np.arange(50.0), 2.0)
order = sa.order.DSigmaShuffler(groups, alpha=2.0).permutation(7)
print(json.dumps([ends, hashed.estimate(messages).values.tolist(), order.tolist()]))
"""


@pytest.mark.slow
def test_blocked_imports_leave_every_answer(in_a_fresh_process):
    slim, estimate, order = json.loads(in_a_fresh_process(BLOCK + ANSWERS))
    whole, *others = json.loads(in_a_fresh_process(ANSWERS))
    assert [estimate, order] == others
    for (lower, upper), (least, most) in zip(slim, whole, strict=True):
        assert max(lower, least) <= min(upper, most)
        # both are as wide as the tolerance that was asked for, or narrower
        assert [lower, upper] == pytest.approx([least, most], rel=1e-3)


def test_one_file_imports_it():
    """`numerics/compiled.py`, where it is used."""
    from pathlib import Path

    import shuffle_accountant

    root = Path(shuffle_accountant.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.strip().startswith(("import numba", "from numba"))
    ]
    assert found == ["numerics/compiled.py"]
