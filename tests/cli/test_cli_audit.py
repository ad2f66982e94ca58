"""The commands `audit` and `calibrate threshold`, and the flag --exposure."""

import json

import numpy as np
import pytest

import shuffle_accountant as sa


@pytest.fixture
def scores(tmp_path):
    rng = np.random.default_rng(7)
    made = {"with": rng.normal(1.0, size=2000), "without": rng.normal(0.0, size=2000)}
    for name, values in made.items():
        np.savetxt(tmp_path / f"{name}.txt", values)
    return made, str(tmp_path / "with.txt"), str(tmp_path / "without.txt")


def test_an_audit_says_what_the_library_says(run, scores, tmp_path):
    made, *files = scores
    flags = ("--eps0", 1, "--users", 1000, "--json", "--delta", "1e-3")
    code, out, err = run("audit", *files, *flags)
    claim = sa.ShuffleRound(sa.GeneralRandomizer(eps0=1.0), users=1000)
    wanted = sa.audit.runs(made["with"], made["without"], protocol=claim)
    shown = json.loads(out)
    assert (code, err) == (1, "")
    assert not shown["consistent"]
    assert shown["p_value"] == wanted.p_value
    assert shown["epsilon_lower"] == wanted.epsilon_lower(delta=1e-3)
    one = sa.Protocol(
        [(sa.PoissonSampled(sa.GaussianMechanism(noise_multiplier=1.0), rate=1.0), 1)]
    )  # which it really is
    (tmp_path / "protocol.json").write_text(json.dumps(one.to_dict()), encoding="utf-8")
    picture = tmp_path / "audit.png"
    code, out, _ = run(
        "audit", *files, "--protocol", tmp_path / "protocol.json", "--output", picture
    )
    assert code == 0
    assert out.startswith("the audit is consistent with the claim at confidence 0.95")
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "--users or --protocol must be given"),
        (("--users", 9, "--protocol", "x.json"), "--protocol must be left out with users"),
        (("--protocol", "x.json"), "protocol must be JSON in 'x.json': No such file"),
    ],
)
def test_an_audit_needs_one_claim(run, scores, flags, said):
    code, out, err = run("audit", *scores[1:], *flags)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    "known", [{"threshold": 12}, {"probability": 0.2, "adjacency": "replace-one", "rounds": 2}]
)
def test_thresholds_are_calibrated(run, known):
    flags = [word for name, value in known.items() for word in (f"--{name}", value)]
    target = ("--target-epsilon", 1, "--delta", "1e-6")
    code, out, _ = run("calibrate", "threshold", *flags, *target, "--json")
    shown = json.loads(out)
    if "adjacency" in known:
        known = known | {"adjacency": sa.Adjacency.REPLACE_ONE}
    wanted = sa.SampleAndThreshold.calibrate(**known, target_epsilon=1.0, delta=1e-6)
    assert code == 0
    assert (shown["probability"], shown["threshold"]) == (wanted.probability, wanted.threshold)
    assert shown["upper"] <= 1.0
    assert shown["conditions"] == list(sa.conditions(wanted))


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("threshold", "--threshold", 5, "--users", 9), "--users must be left out with calibrate"),
        (("threshold", "--threshold", 5), "--target-epsilon and --delta must be given"),
        (("shuffler",), "what must be threshold or left out, got 'shuffler'"),
        (("--threshold", 5), "--threshold must be left out but for calibrate threshold"),
    ],
)
def test_flags_of_another_question_are_refused(run, flags, said):
    code, out, err = run("calibrate", *flags)
    assert (code, out) == (2, "")
    assert said in err


def test_exposure_is_the_shufflers(run):
    flags = ("--eps0", 2, "--users", 10_000, "--delta", "1e-6", "--json")
    _, out, _ = run("epsilon", *flags, "--exposure", "1e-6")
    shown = json.loads(out)
    one = sa.ShuffleRound(
        sa.GeneralRandomizer(eps0=2.0), users=10_000, shuffler=sa.Shuffler(exposure=1e-6)
    )
    assert shown["upper"] == sa.epsilon(one, delta=1e-6).upper
    assert shown["question"]["exposure"] == 1e-6
    assert any("recognises any message" in one for one in shown["conditions"])
