"""Every validator: what passes, what it returns, and the one line it raises otherwise."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffle_accountant import validation as validate

REALS = {
    # validator: (values inside, values outside)
    validate.finite_nonnegative: ([0, 0.0, 1e-300, 1e308], [-1e-300, -1, math.inf, math.nan]),
    validate.nonnegative: ([0, 1e308, math.inf], [-1e-300, -math.inf, math.nan]),
    validate.positive: ([1e-300, 1, 1e308], [0, -0.0, -1, math.inf, math.nan]),
    validate.open_unit: ([1e-300, 0.5, 1 - 1e-15], [0, 1, -0.1, 1.1, math.inf, math.nan]),
    validate.closed_unit: ([0, 1, 0.5], [-1e-300, 1 + 1e-15, math.inf, math.nan]),
}
INSIDE = [(check, value) for check, (inside, _) in REALS.items() for value in inside]
OUTSIDE = [(check, value) for check, (_, outside) in REALS.items() for value in outside]


@pytest.mark.parametrize(("check", "value"), INSIDE)
def test_real_inside_the_range_comes_back_as_a_plain_float(check, value):
    for given_value in (value, np.float64(value)):
        cleaned = check(x=given_value)
        assert type(cleaned) is float
        assert cleaned == value


@pytest.mark.parametrize(("check", "value"), OUTSIDE)
def test_real_outside_the_range_is_a_value_error(check, value):
    with pytest.raises(ValueError, match=r"^sigma must be a .*, got ") as caught:
        check(sigma=value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith(repr(value))


@pytest.mark.parametrize("check", REALS)
@pytest.mark.parametrize(
    "value", [True, np.True_, "1", None, 1j, [0.5], np.array([0.5, 0.5]), b"1", object()]
)
def test_what_is_no_real_number_is_a_type_error(check, value):
    with pytest.raises(TypeError, match=r"^x must be a .*, got .* of type ") as caught:
        check(x=value)
    assert "\n" not in str(caught.value)


def test_the_message_names_argument_value_and_range():
    with pytest.raises(ValueError, match=r"^sigma must be a finite number > 0, got -1$"):
        validate.positive(sigma=-1)
    with pytest.raises(ValueError, match=r"^users must be an integer >= 1, got 0$"):
        validate.integer(minimum=1, users=0)
    with pytest.raises(TypeError, match=r"^users must be an integer >= 1, got 1\.5 of type float$"):
        validate.integer(minimum=1, users=1.5)


def test_other_kinds_of_real_numbers_are_accepted():
    assert validate.positive(x=Fraction(1, 4)) == 0.25
    assert validate.positive(x=np.int64(3)) == 3.0
    assert validate.positive(x=np.float32(0.5)) == 0.5


def test_a_number_too_large_for_a_float_is_a_value_error():
    with pytest.raises(ValueError, match=r"^x must be a finite number >= 0 .*1\.8e308"):
        validate.finite_nonnegative(x=10**400)


@given(st.integers())
def test_integer_returns_the_same_python_int(value):
    cleaned = validate.integer(x=value)
    assert type(cleaned) is int
    assert cleaned == value


def test_integer_accepts_numpy_integers_and_both_limits():
    assert type(validate.integer(minimum=1, maximum=3, x=np.int32(2))) is int
    assert validate.integer(minimum=1, maximum=3, x=1) == 1
    assert validate.integer(minimum=1, maximum=3, x=3) == 3


@pytest.mark.parametrize(
    "value", [1e6, np.float64(1e6), np.float32(1e6), Fraction(10**6), np.int64(10**6)]
)
def test_whole_floats_are_the_integers_that_they_are(value):
    cleaned = validate.integer(minimum=1, users=value)
    assert (type(cleaned), cleaned) == (int, 10**6)


def test_whole_floats_that_may_be_another_integer_are_refused():
    assert validate.integer(x=2.0**53) == 2**53
    assert validate.integer(x=2**53 + 2) == 2**53 + 2
    with pytest.raises(ValueError, match=r"^x must be an integer \(a float at most 2\^53\), got "):
        validate.integer(x=2.0**53 + 2)


@pytest.mark.parametrize("value", [0, 4, -(10**30), 10**30])
def test_integer_outside_its_limits(value):
    with pytest.raises(ValueError, match=r"^x must be an integer >= 1 and <= 3, got "):
        validate.integer(minimum=1, maximum=3, x=value)


def test_integer_with_only_a_maximum():
    with pytest.raises(ValueError, match=r"^x must be an integer <= 3, got 4$"):
        validate.integer(maximum=3, x=4)


@pytest.mark.parametrize(
    "value", [True, np.True_, 1.5, np.float64(2.5), "1", None, math.nan, math.inf, [1]]
)
def test_integer_refuses_every_other_type(value):
    with pytest.raises(TypeError, match=r"^x must be an integer, got "):
        validate.integer(x=value)


def test_choice():
    options = ("auto", "clones")
    assert validate.choice(options, reduction="clones") == "clones"
    with pytest.raises(
        ValueError, match=r"^reduction must be one of 'auto', 'clones', got 'magic'$"
    ):
        validate.choice(options, reduction="magic")
    with pytest.raises(TypeError, match=r"^reduction must be one of .*, got 3 of type int$"):
        validate.choice(options, reduction=3)
    with pytest.raises(TypeError, match=r"of type list$"):
        validate.choice(options, reduction=[])


def test_flag():
    assert validate.flag(interactive=True) is True
    assert validate.flag(interactive=np.False_) is False
    for value in (0, 1, "no", None):
        with pytest.raises(TypeError, match=r"^interactive must be True or False, got "):
            validate.flag(interactive=value)


def test_instance():
    error = ValueError("x")
    assert validate.instance(ValueError, error=error) is error
    with pytest.raises(TypeError, match=r"^error must be an ArithmeticError, got 1 of type int$"):
        validate.instance(ArithmeticError, error=1)
    with pytest.raises(TypeError, match=r"^error must be a ValueError, got "):
        validate.instance(ValueError, error=None)


def test_long_values_are_cut_to_one_short_line():
    with pytest.raises(TypeError) as caught:
        validate.positive(x=np.ones((100, 100)))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("named", [{}, {"a": 1, "b": 2}])
def test_exactly_one_keyword(named):
    with pytest.raises(TypeError, match="exactly one keyword"):
        validate.positive(**named)


def test_an_object_of_json_has_different_names():
    assert validate.json_object([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}
    with pytest.raises(ValueError, match=r"^field 'a' is given twice$"):
        validate.json_object([("a", 1), ("b", 2), ("a", 1)])


def test_a_message_shows_a_value_cut_short():
    """A nested state within the levels that are shown is cut; what is short is shown whole."""
    nested: object = 1.5
    for depth in range(12):
        nested = {f"{key} of {depth}": nested for key in ("count", "round", "users", "trials")}
    with pytest.raises(TypeError, match=r"trials must be an integer.* got \{") as raised:
        validate.integer(trials=nested)
    assert len(str(raised.value)) < 300
    assert "\n" not in str(raised.value)
    assert validate.shown({"trials": 50}) == "{'trials': 50}"
