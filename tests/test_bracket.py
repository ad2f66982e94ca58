"""Bracket, ErrorLedger and PrivacyProfile as values: construction, text, copies, refusals."""

import copy
import json
import math
import pickle
import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import (
    Attained,
    Bracket,
    CrossedEndsError,
    ErrorLedger,
    LooseBracketWarning,
    PrivacyProfile,
    TradeOffCurve,
    format_ends,
)

LEDGER = ErrorLedger(discretisation=1e-5, truncation=2e-6, aliasing=0.0, round_off=3e-12)


@pytest.fixture
def bracket():
    return Bracket(lower=0.8538664123, upper=0.8538801123, ledger=LEDGER, reduction="clones")


def test_its_value_is_the_upper_end(bracket):
    assert isinstance(bracket, float)
    assert bracket == bracket.upper == 0.8538801123
    assert bracket.lower == 0.8538664123
    assert bracket.reduction == "clones"
    assert bracket.ledger is LEDGER
    assert bracket.width == bracket.upper - bracket.lower
    assert f"{bracket:.3f}" == "0.854"
    assert json.loads(json.dumps(bracket)) == bracket.upper


def test_arithmetic_gives_plain_floats(bracket):
    results = [bracket + 1, 2 * bracket, -bracket, abs(bracket), bracket / 2, bracket**2]
    assert {type(result) for result in results} == {float}
    assert {type(end) for end in (bracket.lower, bracket.upper, bracket.width)} == {float}
    assert math.exp(bracket) == math.exp(bracket.upper)
    assert np.asarray([bracket]).dtype == np.float64


def test_contains(bracket):
    assert bracket.contains(0.85387)
    assert bracket.contains(bracket.lower)
    assert bracket.contains(bracket.upper)
    assert not bracket.contains(0.8539)
    assert not bracket.contains(0.8538)
    assert not bracket.contains(math.nan)


def test_it_cannot_be_changed(bracket):
    for name in ("lower", "upper", "ledger", "reduction", "width", "colour"):
        with pytest.raises(AttributeError):
            setattr(bracket, name, 1.0)


def test_keyword_only():
    with pytest.raises(TypeError):
        Bracket(0.1, 0.2)


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        (-1e-300, 1.0),
        (-1.0, -0.5),
        (math.nan, 1.0),
        (0.0, math.nan),
        (math.nan, math.nan),
    ],
)
def test_refuses_what_is_no_bracket(lower, upper):
    with pytest.raises(ValueError, match=r"^internal error: not a bracket: lower=.*upper="):
        Bracket(lower=lower, upper=upper, reduction="clones")


def test_the_width_is_never_nan():
    assert Bracket(lower=math.inf, upper=math.inf, reduction="clones").width == 0.0
    assert Bracket(lower=1.0, upper=math.inf, reduction="clones").width == math.inf


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(bracket, protocol):
    assert_same(pickle.loads(pickle.dumps(bracket, protocol)), bracket)


def test_copy(bracket):
    assert_same(copy.copy(bracket), bracket)
    assert_same(copy.deepcopy(bracket), bracket)


def assert_same(other, bracket):
    assert type(other) is Bracket
    assert (other.lower, other.upper) == (bracket.lower, bracket.upper)
    assert (other.ledger, other.reduction) == (bracket.ledger, bracket.reduction)


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (0.8538664123, 0.8538801123, ("0.853866", "0.853881")),
        (0.0, 0.0, ("0.0", "0.0")),
        (4.0, 4.0, ("4.0", "4.0")),
        (0.0, 1.0, ("0", "1.0")),
        (0.5, math.inf, ("0.50", "inf")),
        (math.inf, math.inf, ("inf", "inf")),
        (1.234561e-100, 1.234782e-100, ("1.23456e-100", "1.23479e-100")),
        (1e-310, 1e-300, ("1.0e-310", "1.00e-300")),
        (0.0, 5e-324, ("0", "5.0e-324")),
        (663.3512, 663.3598, ("663.3512", "663.3598")),
        (0.99996, 0.99999, ("0.999960", "0.999990")),
        (1.0, 1.0 + 2**-52, ("1.0", "1.0000000000000002")),
    ],
)
def test_text_of_the_ends(lower, upper, text):
    assert format_ends(lower, upper) == text


def test_repr_shows_both_ends(bracket):
    assert repr(bracket) == "Bracket(0.853866 <= x <= 0.853881, reduction='clones')"
    assert str(bracket) == repr(bracket)


ends = st.floats(min_value=0.0, allow_nan=False, allow_infinity=False)


@given(ends, ends)
def test_the_text_encloses_the_numbers_and_tells_them_apart(one, other):
    lower, upper = sorted((one, other))
    low_text, high_text = format_ends(lower, upper)
    if lower == upper:
        assert float(low_text) == float(high_text) == lower
        return
    assert float(low_text) <= lower
    assert float(high_text) >= upper
    assert Decimal(low_text) < Decimal(high_text)
    assert all(re.fullmatch(r"\d+(\.\d+)?(e[+-]\d+)?", text) for text in (low_text, high_text))


@given(st.floats(0.1, 10.0), st.floats(1e-9, 1e-1))
def test_the_text_is_not_much_looser_than_the_numbers(lower, relative_width):
    upper = lower * (1.0 + relative_width)
    low_text, high_text = format_ends(lower, upper)
    assert float(high_text) - float(low_text) <= 1.21 * (upper - lower)


def test_ledger():
    assert LEDGER.total == math.fsum([1e-5, 2e-6, 3e-12])
    assert LEDGER.limited_by == "discretisation"
    assert ErrorLedger(round_off=1e-9).limited_by == "round_off"
    assert ErrorLedger().limited_by == "nothing"
    assert ErrorLedger().total == 0.0
    assert list(LEDGER.to_dict()) == ["discretisation", "truncation", "aliasing", "round_off"]
    assert pickle.loads(pickle.dumps(LEDGER)) == LEDGER
    assert Bracket(lower=0.0, upper=1.0, reduction="clones").ledger == ErrorLedger()


@pytest.mark.parametrize("width", [-1e-300, math.nan])
def test_ledger_refuses_what_is_no_width(width):
    with pytest.raises(ValueError, match="aliasing must be a width >= 0"):
        ErrorLedger(aliasing=width)


def test_ledger_is_frozen():
    with pytest.raises(AttributeError):
        LEDGER.truncation = 1.0


def test_profile():
    epsilons = np.array([0.0, 0.5, 1.0])
    profile = PrivacyProfile(epsilons, [0.1, 0.01, 0.0], np.array([0.2, 0.02, 0.0]))
    assert len(profile) == 3
    epsilons[0] = 7.0
    assert profile.epsilons[0] == 0.0
    assert profile.lower.dtype == np.float64
    with pytest.raises(ValueError, match="read-only"):
        profile.upper[0] = 0.0
    with pytest.raises(AttributeError):
        profile.upper = epsilons


@pytest.mark.parametrize(
    ("lower", "upper"),
    [([-0.1, 0.0], [0.2, 0.2]), ([0.0, 0.0], [0.2, -0.2]), ([math.nan, 0.0], [0.2, 0.2])],
)
def test_curves_refuse_ends_that_are_no_probabilities(lower, upper):
    with pytest.raises(ValueError, match="not a profile"):
        PrivacyProfile(np.zeros(2), lower, upper)
    with pytest.raises(ValueError, match="not a trade-off curve"):
        TradeOffCurve(np.zeros(2), lower, upper)


CROSSED = r"^internal error, please report it: crossed ends, lower=0.3 and upper=0.2; the answer"


def test_crossed_ends_are_an_error_of_their_own():
    """Raised where warnings are errors, as they are in these tests."""
    for make in (
        lambda: Bracket(lower=0.3, upper=0.2, reduction="clones"),
        lambda: Attained(lower=0.3, upper=0.2, dataset=(0, 1, 2)),
        lambda: PrivacyProfile(np.zeros(2), [0.1, 0.3], [0.2, 0.2]),
        lambda: TradeOffCurve(np.zeros(2), [0.1, 0.3], [0.2, 0.2]),
    ):
        with pytest.raises(CrossedEndsError, match=CROSSED):
            make()


def test_users_get_a_warning_and_an_answer_with_both_ends():
    with pytest.warns(CrossedEndsError, match=CROSSED):
        found = Bracket(lower=0.3, upper=0.2, reduction="clones")
    assert (found.lower, found.upper, float(found)) == (0.2, 0.3, 0.3)
    with pytest.warns(CrossedEndsError, match=CROSSED):
        attained = Attained(lower=0.3, upper=0.2, dataset=(0, 1, 2))
    assert (attained.lower, attained.upper, float(attained)) == (0.2, 0.3, 0.2)
    for curve in (PrivacyProfile, TradeOffCurve):
        with pytest.warns(CrossedEndsError, match=CROSSED) as caught:
            made = curve(np.zeros(3), [0.1, 0.3, 0.4], [0.2, 0.2, 0.1])
        assert len(caught) == 1
        assert (made.lower.tolist(), made.upper.tolist()) == ([0.1, 0.2, 0.1], [0.2, 0.3, 0.4])
        with pytest.raises(ValueError, match="read-only"):
            made.upper[0] = 0.0


def test_profile_refuses_other_shapes():
    with pytest.raises(ValueError, match="three equal shapes"):
        PrivacyProfile(np.zeros(2), np.zeros(3), np.zeros(2))
    with pytest.raises(ValueError, match="three equal shapes"):
        PrivacyProfile(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1)))


def test_the_warning_is_a_user_warning():
    assert issubclass(LooseBracketWarning, UserWarning)


def test_brackets_of_rounds_are_not_added():
    one, both = Adjacency.REPLACE_ONE, "cannot be added: .*Protocol"
    known = Bracket(lower=1.0, upper=2.0, reduction="clones", adjacency=one)
    with pytest.raises(TypeError, match=both) as refused:
        known + known
    assert "\n" not in str(refused.value)
    leaked = Bracket(lower=1.0, upper=2.0, reduction="clones")
    for total in (known + 1.0, 1.0 + known, known + leaked, leaked + leaked):
        assert type(total) is float
    assert known + leaked == 4.0


def test_notebooks_show_the_number_and_the_bracket():
    shown = Bracket(
        lower=0.5, upper=0.6, reduction="a < b", adjacency=Adjacency.ZERO_OUT
    )._repr_html_()
    assert shown.startswith("<b>0.600</b> (report this)")
    assert "0.500 ≤ x ≤ 0.600 (a &lt; b, zero-out)" in shown
