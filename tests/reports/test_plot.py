"""Pictures hold the library's numbers, on the axes that were given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import shuffle_accountant as sa
from shuffle_accountant.reports.comparison import ComparisonRow, compare
from shuffle_accountant.reports.drawing import bound_named, curve_style, protocol_told


@pytest.fixture(autouse=True)
def without_a_screen() -> Iterator[None]:
    before = mpl.get_backend()
    mpl.use("Agg")
    yield
    pyplot.close("all")
    mpl.use(before)


def test_a_profile_is_the_accountant_s() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(2.0), users=1000)
    epsilons = np.linspace(0.0, 0.4, 5)
    ax = sa.plot.profile(one, epsilons=epsilons, label="one round")
    assert isinstance(ax, Axes)
    (line,) = ax.get_lines()
    expected = sa.FourierAccountant().compose(one).profile(epsilons)
    np.testing.assert_array_equal(line.get_xdata(), epsilons)
    np.testing.assert_array_equal(line.get_ydata(), expected.upper)
    assert ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["one round"]
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    assert set(expected.lower) <= set(corners[:, 1])


def test_a_profile_is_titled_and_its_width_stands_below() -> None:
    one = sa.ShuffleRound(sa.RandomizedResponse(categories=16, eps0=2.0), users=1000)
    ax = sa.plot.profile(sa.Protocol([(one, 3)]), epsilons=[0.1, 0.2, 0.3], label="k-RR")
    assert (
        ax.get_title() == "k-RR: randomized response, 16 categories, ε0 = 2, 1,000 users; 3 rounds"
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("ε (nats)", "δ (probability)")
    curve = sa.FourierAccountant().compose(one, count=3).profile([0.1, 0.2, 0.3])
    (panel,) = ax.child_axes
    assert panel.get_yscale() == "log"
    (width,) = panel.get_lines()
    np.testing.assert_array_equal(width.get_ydata(), (curve.upper - curve.lower) / curve.upper)
    # below the curve, not on it
    ax.figure.canvas.draw()
    assert panel.get_window_extent().y1 < ax.get_window_extent().y0
    assert panel.get_window_extent().y0 > 0.0


def test_a_second_profile_has_a_style_and_a_line_of_the_title() -> None:
    ax = pyplot.figure().add_subplot()
    for users in (100, 200):
        one = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=users)
        sa.plot.profile(one, epsilons=[0.1, 0.2], label=f"n = {users}", ax=ax)
    assert [line.split(":")[0] for line in ax.get_title().splitlines()] == ["n = 100", "n = 200"]
    first, second = ax.get_lines()
    assert seen_in_grey(first) != seen_in_grey(second)
    (panel,) = ax.child_axes
    assert len(panel.get_lines()) == 2


def test_the_delta_asked_for_is_marked_with_its_epsilon() -> None:
    accountant = sa.FourierAccountant().compose(
        sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=100), count=3
    )
    ax = sa.plot.profile(accountant, delta=1e-20)
    found = accountant.epsilon(delta=1e-20)
    curve, point = ax.get_lines()
    assert (list(point.get_xdata()), list(point.get_ydata())) == ([found.upper], [1e-20])
    (text,) = ax.get_legend().get_texts()
    assert text.get_text() == f"ε = {' to '.join(found.ends())} at δ = 1e-20"
    # the curve reaches the point
    assert curve.get_xdata()[-1] == found.upper


def test_an_infinite_epsilon_has_no_mark() -> None:
    # the first message gives the input away in one case of ten
    open_letters = sa.DiscreteRandomizer([[0.1, 0.0, 0.9], [0.0, 0.1, 0.9]])
    ax = sa.plot.profile(sa.ShuffleRound(open_letters, users=1), epsilons=[0.0, 1.0], delta=0.01)
    assert len(ax.get_lines()[-1].get_xdata()) == 0
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["ε is infinite at δ = 0.01"]
    # both ends are one number: no panel
    assert ax.figure.canvas.draw() is None


def test_a_profile_is_drawn_on_the_axes_given() -> None:
    accountant = sa.FourierAccountant().compose(
        sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=100), count=3
    )
    ax = pyplot.figure().add_subplot()
    assert sa.plot.profile(accountant, ax=ax) is ax
    assert sa.plot.profile(accountant, epsilons=[0.1], ax=ax) is ax
    first, second = ax.get_lines()
    assert len(first.get_xdata()) > 10
    # down to the smallest delta shown by default
    assert 1e-13 < first.get_ydata()[-1] <= 1.01e-12
    assert second.get_ydata()[0] == accountant.delta(epsilon=0.1).upper


def test_nothing_is_drawn_empty() -> None:
    nothing = sa.ShuffleRound(sa.GeneralRandomizer(0.0), users=4000)
    some = sa.ShuffleRound(sa.GeneralRandomizer(0.1), users=4000)
    for ax, why in (
        (sa.plot.profile(sa.FourierAccountant()), "there are no rounds"),
        (sa.plot.profile(nothing), "nothing leaks"),
        (sa.plot.profile(some, epsilons=[0.2, 0.3]), "from 0.2"),
        (sa.plot.compare(nothing, delta=1e-6, rounds=[1]), "ε is 0 at every number of rounds"),
        (sa.plot.report(sa.report(sa.FourierAccountant(), delta=1e-6)), "nothing leaks"),
        (sa.plot.report(sa.report(nothing, delta=1e-6)), "nothing leaks"),
    ):
        assert not ax.get_lines()
        assert not ax.patches
        assert why in " ".join(ax.texts[0].get_text().split())
        assert ax.get_title()
        ax.figure.canvas.draw()


def label_of(row: ComparisonRow) -> str:
    return bound_named(row.name, row.form) + ("" if row.sound else ", not sound")


def seen_in_grey(line: Line2D) -> tuple[str, str]:
    """What is left of a style without its colour."""
    return str(line._unscaled_dash_pattern), str(line.get_marker())  # type: ignore[attr-defined]


@pytest.mark.slow
def test_compare_draws_every_bound_that_applies() -> None:
    ax = sa.plot.compare(eps0=0.4, users=4000, delta=1e-6, rounds=(1, 4))
    lines = {line.get_label(): line for line in ax.get_lines()}
    for count in (0, 1):
        rows = compare(eps0=0.4, users=4000, delta=1e-6, rounds=(1, 4)[count])
        assert len(rows) == len(lines)
        for row in rows:
            assert lines[label_of(row)].get_ydata()[count] == row.epsilon
    assert ax.get_title() == "any randomizer, ε0 = 0.4, 4,000 users"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rounds (number)", "ε (nats) at δ = 1e-06")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["1", "4"]
    (panel,) = ax.child_axes
    (width,) = panel.get_lines()
    assert width.get_ydata()[-1] == (rows[0].epsilon - rows[0].lower) / rows[0].epsilon


@pytest.mark.slow
def test_curves_are_told_apart_without_colour_and_the_legend_covers_none() -> None:
    ax = sa.plot.compare(eps0=0.4, users=4000, delta=1e-6, rounds=(1, 4))
    styles = [seen_in_grey(line) for line in ax.get_lines()]
    assert len(set(styles)) == len(styles) > 8
    many = {(str(one["linestyle"]), one["marker"]) for one in map(curve_style, range(35))}
    assert len(many) == 35
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1


@pytest.mark.slow
def test_what_does_not_apply_is_named_with_the_reason_and_the_unsound_marked() -> None:
    ax = pyplot.figure().add_subplot()
    asked = {"eps0": 1.0, "users": 100, "categories": 3, "delta": 1e-4}
    assert sa.plot.compare(**asked, rounds=[1, 2], ax=ax) is ax
    drawn = {str(line.get_label()) for line in ax.get_lines()}
    assert "Erlingsson et al." not in drawn
    assert {label for label in drawn if "not sound" in label} == {
        "specialised clones (k = 3), not sound"
    }
    texts = [" ".join(text.get_text().split()) for text in ax.get_legend().get_texts()]
    reasons = texts[texts.index("not drawn:") + 1 :]
    rows = {count: compare(**asked, rounds=count) for count in (1, 2)}
    for row in rows[1]:
        if row.condition is not None:
            name, reason = bound_named(row.name, row.form), f"needs {row.condition}"
            assert any(name in text and text.endswith(reason) for text in reasons)
    (partly,) = (text for text in reasons if "specialised clones (k = 3)" in text)
    condition = next(row.condition for row in rows[2] if row.name == "specialised_clones")
    assert partly == f"specialised clones (k = 3): at 2 rounds: needs {condition}"


def test_bars_have_numbers_and_what_has_no_share_is_named() -> None:
    one = sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=100)
    found = sa.report(one, delta=1e-6)
    ax = sa.plot.report(found)
    assert ax.get_title().splitlines()[0] == "any randomizer, ε0 = 1, 100 users; 1 round"
    beside = [" ".join(text.get_text().split()) for text in reversed(ax.texts)]
    names = [tick.get_text() for tick in reversed(ax.get_yticklabels())]
    assert len(beside) == len(names) == len(found.rows)
    for row, text, name in zip(found.rows, beside, names, strict=True):
        assert text.startswith(row.value())
        assert row.unit in text or row.upper is None
        assert name == f"{row.measure}\n({row.scope})"
    assert any(text.startswith("n/a: needs") for text in beside)


@pytest.mark.parametrize(
    ("rounds", "told"),
    [
        ([], "no rounds"),
        (
            [(sa.ShuffledBatches(noise_multiplier=0.5, steps=10), 1)],
            "shuffled batches, noise multiplier = 0.5, 10 steps; 1 round",
        ),
        (
            [(sa.RandomAllocation(sa.GaussianMechanism(noise_multiplier=1.0), steps=100), 2000)],
            "allocation, Gaussian noise, noise multiplier = 1, 100 steps; 2,000 rounds",
        ),
        (
            [
                (
                    sa.ShuffleRound(
                        sa.GeneralRandomizer(1.0, interactive=True),
                        users=10,
                        population=1000,
                        reduction="clones",
                    ),
                    1,
                ),
                (sa.ShuffleRound(sa.DiscreteRandomizer([[0.6, 0.4], [0.4, 0.6]]), users=2), 3),
            ],
            "any randomizer, ε0 = 1, interactive, 10 users, population of 1,000 (1 round); "
            "a channel matrix, 2 users (3 rounds)",
        ),
        (
            [(sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=n), n) for n in (1, 2, 3)],
            "6 rounds of 3 kinds",
        ),
        (
            [
                (
                    sa.ShuffleRound(
                        sa.BinaryRandomizedResponse(eps0=1.0),
                        users=10,
                        others={sa.BinaryRandomizedResponse(eps0=2.0): 1500},
                        colluding=3,
                    ),
                    1,
                )
            ],
            "randomized response, 2 categories, ε0 = 1, 10 users, 1,500 others, 3 colluding; "
            "1 round",
        ),
    ],
)
def test_protocols_are_told_in_one_line(rounds: list[Any], told: str) -> None:
    assert protocol_told(sa.Protocol(rounds)) == told


@pytest.mark.parametrize(
    ("call", "error", "named"),
    [
        (lambda: sa.plot.profile("round"), TypeError, "subject"),
        (lambda: sa.plot.profile(sa.FourierAccountant(), epsilons=[-1.0]), ValueError, "epsilons"),
        (lambda: sa.plot.compare(eps0=1.0, users=9, delta=0.1, rounds=[]), ValueError, "rounds"),
        (lambda: sa.plot.compare(eps0=1.0, users=9, delta=0.1, rounds=[0]), ValueError, "rounds"),
        (lambda: sa.plot.compare(eps0=-1.0, users=9, delta=0.1), ValueError, "eps0"),
    ],
)
def test_bad_values_are_named(call: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=rf"^{named} must ") as caught:
        call()
    assert "\n" not in str(caught.value)


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[plot\]'"):
        sa.plot.profile(sa.FourierAccountant())


def test_rounds_and_protocols_are_drawn_as_what_an_accountant_recorded() -> None:
    one = sa.ShuffleRound(sa.HadamardResponse(categories=8, eps0=1.0), users=100)
    recorded = sa.FourierAccountant().compose(one, count=2)
    wanted = sa.plot.profile(recorded, epsilons=[0.1, 0.2]).get_lines()[0].get_ydata()
    for subject in (sa.Protocol([(one, 2)]), [(one, 2)]):
        drawn = sa.plot.profile(subject, epsilons=[0.1, 0.2]).get_lines()[0].get_ydata()
        assert list(drawn) == list(wanted)
    ax = sa.plot.compare(one, delta=1e-4, rounds=[1])
    rows = compare(one, delta=1e-4)
    labels = {line.get_label() for line in ax.get_lines()}
    assert labels == {label_of(row) for row in rows if row.epsilon}
