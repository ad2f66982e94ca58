"""A call that does not fit is answered, in one line, with the call that was meant."""

from __future__ import annotations

import importlib
import inspect
import pickle
import pydoc
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from types import FunctionType, MethodType, ModuleType
from typing import Any

import pytest

import shuffle_accountant as sa
from shuffle_accountant.facades import explained

R = sa.GeneralRandomizer(eps0=4.0)
ONE = sa.ShuffleRound(R, users=1000)

# What was typed, and what the answer must say.
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a number that needs its name": (
        lambda: sa.FourierAccountant().epsilon(1e-6),  # type: ignore[misc]
        "FourierAccountant.epsilon takes delta by name: write epsilon(delta=1e-06)",
    ),
    "users without their name": (
        lambda: sa.ShuffleRound(R, 1000),  # type: ignore[misc]
        "ShuffleRound takes users by name: "
        "write ShuffleRound(GeneralRandomizer(eps0=4.0), users=1000)",
    ),
    "another name": (
        lambda: sa.GeneralRandomizer(epsilon=4),  # type: ignore[call-arg]
        "GeneralRandomizer has no argument 'epsilon': write GeneralRandomizer(eps0=4)",
    ),
    "two other names": (
        lambda: sa.RandomizedResponse(k=4, epsilon=2),  # type: ignore[call-arg]
        "RandomizedResponse has no argument 'k' and 'epsilon': "
        "write RandomizedResponse(categories=4, eps0=2)",
    ),
    "something missing": (
        lambda: sa.ShuffleRound(R),  # type: ignore[call-arg]
        "ShuffleRound needs users: write ShuffleRound(GeneralRandomizer(eps0=4.0), users=...)",
    ),
    "nothing": (
        lambda: sa.ShuffleRound(),  # type: ignore[call-arg]
        "ShuffleRound needs randomizer: write ShuffleRound(randomizer=...)",
    ),
    "a long value": (
        lambda: sa.epsilon(ONE, 1e-6),  # type: ignore[misc]
        "epsilon takes delta by name: write epsilon(round, delta=1e-06)",
    ),
    "numbers without names": (
        lambda: sa.max_eps0(1000, 4, 1.0, 1e-6),  # type: ignore[misc]
        "max_eps0 takes users, rounds, target_epsilon and delta by name: "
        "write max_eps0(users=1000, rounds=4, target_epsilon=1.0, delta=1e-06)",
    ),
    "too many": (
        lambda: sa.GeneralRandomizer(1.0, False, sa.Adjacency.ZERO_OUT, 4),  # type: ignore[misc]
        "GeneralRandomizer takes no more than 3 arguments: "
        "write GeneralRandomizer(1.0, False, adjacency=<Adjacency.ZERO_OUT: 'zero-out'>)",
    ),
    "twice": (
        lambda: sa.GeneralRandomizer(1.0, eps0=2.0),  # type: ignore[misc]
        "GeneralRandomizer was given eps0 twice: write GeneralRandomizer(2.0)",
    ),
    "a class method": (
        lambda: sa.RandomizedResponse.from_gamma(4, 0.25),  # type: ignore[misc]
        "RandomizedResponse.from_gamma takes categories and gamma by name: "
        "write from_gamma(categories=4, gamma=0.25)",
    ),
    "an inherited method": (
        lambda: ONE.delta(0.5),  # type: ignore[misc]
        "ShuffleRound.delta takes epsilon by name: write delta(epsilon=0.5)",
    ),
    "an inherited constructor": (
        lambda: sa.order.MallowsHamming(10, teta=1.0),  # type: ignore[call-arg]
        "MallowsHamming has no argument 'teta': write MallowsHamming(10, theta=1.0)",
    ),
    "a bound of a module": (
        lambda: sa.baselines.girgis.epsilon(3.0, 1000),  # type: ignore[misc, call-arg]
        "epsilon takes eps0 and users by name: write epsilon(eps0=3.0, users=1000, delta=...)",
    ),
    "a function of a module imported on first use": (
        lambda: sa.leakage.reidentification.bound(R, 100),  # type: ignore[misc]
        "bound takes users by name: write bound(GeneralRandomizer(eps0=4.0), users=100)",
    ),
}


@pytest.mark.parametrize(("typed", "said"), MISTAKES.values(), ids=MISTAKES)
def test_the_right_call_is_shown(typed: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        typed()
    assert str(caught.value) == said


PACKAGES = (
    "shuffle_accountant",
    "shuffle_accountant.design",
    "shuffle_accountant.certificates",
    "shuffle_accountant.order",
    "shuffle_accountant.training",
    "shuffle_accountant.randomizers",
    "shuffle_accountant.leakage.qif",
    "shuffle_accountant.leakage.mutual_information",
    "shuffle_accountant.leakage.reidentification",
    *(
        f"shuffle_accountant.baselines.{one}"
        for one in (*sa.baselines.__all__, "closed_forms", "privacy_blanket")
        if isinstance(getattr(sa.baselines, one, sa), ModuleType)
    ),
)


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, and the public functions of every public class."""
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, FunctionType | MethodType):
                yield f"{package}.{name}", value
            elif isinstance(value, type) and not issubclass(value, Enum):
                yield from methods(value)
    for name in sa.plot.__all__:
        value = getattr(sa.plot, name)
        if callable(value):
            yield f"plot.{name}", value


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(kind):
        member = inspect.getattr_static(kind, name)
        known = name in ("__init__", "__new__", "__call__") or not name.startswith("_")
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        if known and isinstance(member, FunctionType) and member.__module__.startswith(sa.__name__):
            yield f"{kind.__name__}.{name}", member


@pytest.mark.slow
@pytest.mark.parametrize(
    "call", [pytest.param(call, id=name) for name, call in dict(public()).items()]
)
def test_every_public_call_that_does_not_fit_is_explained(call: Callable[..., Any]) -> None:
    parameters = inspect.signature(call).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return  # takes any name
    with pytest.raises(TypeError) as caught:
        call(None, no_such_argument=1)
    said = str(caught.value)
    assert "has no argument 'no_such_argument'" in said
    assert ": write " in said
    assert "\n" not in said


def test_there_are_hundreds_of_them() -> None:
    names = dict(public())
    assert len(names) > 300
    assert {"ShuffleRound.__init__", "FourierAccountant.epsilon", "plot.profile"} <= set(names)


def test_signatures_stay_visible() -> None:
    told = inspect.signature(sa.ShuffleRound)
    assert list(told.parameters)[:2] == ["randomizer", "users"]
    assert told.parameters["users"].kind is inspect.Parameter.KEYWORD_ONLY
    assert "epsilon(self, *, delta: 'float', group: 'int' = 1) -> 'Bracket'" in pydoc.plain(
        pydoc.render_doc(sa.FourierAccountant)
    )
    assert typing.get_type_hints(sa.epsilon)["return"] is sa.Bracket
    assert "Bracket of epsilon" in (sa.epsilon.__doc__ or "")


def test_functions_are_the_same_wherever_they_are_named_and_can_be_pickled() -> None:
    home = importlib.import_module("shuffle_accountant.accountant")
    assert sa.epsilon is home.epsilon
    assert pickle.loads(pickle.dumps(sa.epsilon)) is sa.epsilon
    assert pickle.loads(pickle.dumps(sa.max_eps0)) is sa.max_eps0
    assert explained(sa.epsilon) is sa.epsilon


def test_an_error_of_the_inside_is_left_alone() -> None:
    class Loud(sa.GeneralRandomizer):
        def __hash__(self) -> int:
            raise TypeError("inside")

    with pytest.raises(TypeError, match=r"^inside$"):
        sa.epsilon(sa.ShuffleRound(Loud(1.0), users=10), delta=0.1)
    with pytest.raises(TypeError, match=r"^delta must be a number in \(0, 1\), got '1'"):
        sa.epsilon(ONE, delta="1")  # type: ignore[arg-type]


def test_things_of_others_are_left_alone() -> None:
    assert explained(len) is len
    assert explained(pickle) is pickle
    assert explained(pickle.dumps) is pickle.dumps
    assert explained(ModuleType) is ModuleType
    assert not hasattr(ModuleType, "_explained")
