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

import shuffle_accountant as sa
from shuffle_accountant.reports.comparison import compare


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


def test_nothing_happened() -> None:
    ax = sa.plot.profile(sa.FourierAccountant())
    assert len(ax.get_lines()[0].get_xdata()) == 0
    ax.figure.canvas.draw()
    ax = sa.plot.compare(eps0=0.0, users=4000, delta=1e-6, rounds=[1])
    assert len(ax.get_lines()) == 0
    ax.figure.canvas.draw()


def test_compare_draws_every_bound_that_applies() -> None:
    ax = sa.plot.compare(eps0=0.4, users=4000, delta=1e-6, rounds=(1, 4))
    lines = {line.get_label(): line for line in ax.get_lines()}
    for count in (0, 1):
        rows = compare(eps0=0.4, users=4000, delta=1e-6, rounds=(1, 4)[count])
        assert len(rows) == len(lines)
        for row in rows:
            line = lines[f"{row.name} ({row.form})" if row.form else row.name]
            assert line.get_ydata()[count] == row.epsilon
            assert line.get_linestyle() == "-"
    ax.figure.canvas.draw()


def test_compare_leaves_out_what_does_not_apply_and_dashes_the_unsound() -> None:
    ax = pyplot.figure().add_subplot()
    drawn = sa.plot.compare(eps0=1.0, users=100, categories=3, delta=1e-4, rounds=[1], ax=ax)
    assert drawn is ax
    styles = {line.get_label(): line.get_linestyle() for line in ax.get_lines()}
    assert "erlingsson" not in styles
    assert styles.pop("specialised_clones (k = 3)") == "--"
    assert set(styles.values()) == {"-"}


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
    with pytest.raises(ImportError, match=r"pip install 'shuffle-accountant\[plot\]'"):
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
    assert labels == {
        f"{row.name} ({row.form})" if row.form else row.name for row in rows if row.epsilon
    }
