"""What is read as a certificate: the fields of its schema, each once, and nothing else."""

from __future__ import annotations

import copy
import json
import math
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

pytest.importorskip("flint", reason="python-flint is the extra 'verify'")

import shuffle_accountant as sa
from shuffle_accountant.certificates import Certificate, certify, schema, verify
from tests.certificates.test_certificates import KINDS, at

PUBLISHED = Path("docs/reference/certificate.schema.json")
FURTHER = {
    "gamma": sa.ShuffleRound(sa.RandomizedResponse.from_gamma(categories=3, gamma=0.5), users=3),
    "pure step": sa.RandomAllocation(sa.PureMechanism(epsilon=1.0), steps=3, released=1),
}
ORACLE = jsonschema.Draft202012Validator(schema.DOCUMENT)
# Of no field at all.
NOWHERE = ([], {}, "", "1", [[]], {"kind": "general"}, True, 10**400, -(10**400))


@pytest.fixture(scope="module")
def made() -> dict[str, dict[str, Any]]:
    """The content of a certificate for every kind of randomizer, mechanism and round."""
    kinds = {**KINDS, **FURTHER}
    return {
        name: certify(sa.Protocol([(one, 3)]), delta=1e-3).content for name, one in kinds.items()
    }


def objects(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all objects."""
    inner = node.items() if isinstance(node, dict) else enumerate(node)
    found = [path] if isinstance(node, dict) else []
    for name, value in inner:
        if isinstance(value, dict | list):
            found += objects(value, (*path, name))
    return found


def refusal(content: Any) -> str:
    """Why a content, with its digest made anew, is not verified: at load, or later."""
    try:
        found = verify(Certificate.from_content(content))
    except ValueError as error:
        said = str(error)
    else:
        said = "" if found.verified else found.reason
    assert "\n" not in said
    assert len(said) < 400
    return said


def changed(content: Any, path: tuple[Any, ...], value: Any) -> Any:
    altered = copy.deepcopy(content)
    at(altered, path[:-1])[path[-1]] = value
    return altered


def why_not(value: Any) -> str:
    """What the checker says of a certificate; the library for JSON Schema must agree with it."""
    try:
        schema.check(value, "certificate")
        said = ""
    except ValueError as error:
        said = str(error)
    assert "\n" not in said
    assert ORACLE.is_valid(value) == (not said), said
    return said


@pytest.mark.parametrize("kind", [*KINDS, *FURTHER])
def test_every_field_is_needed_and_no_other_is_allowed(made: Any, kind: str) -> None:
    content = made[kind]
    assert why_not(content) == ""
    tried = 0
    for path in objects(content):
        for field in at(content, path):
            if (*path, field) == ("digest",):
                continue  # it is made anew
            less = copy.deepcopy(content)
            del at(less, path)[field]
            tried += 1
            if field in ("messages_per_user", "messages", "shuffler"):
                # another round, about which more is claimed than holds
                assert refusal(less)
                continue
            assert why_not(less) or field == "backward"
            # either of two would do, the first is named
            named = "eps0" if field == "gamma" else field
            assert named in refusal(less), (path, field)
        for field in ("further", "", "users "):
            more = changed(content, (*path, field), 1)
            assert why_not(more)
            assert repr(field) in refusal(more)
    assert tried > 20


NULLABLE = {"population", "released", "variant", "adjacency", "add", "optimistic_add"}
NULLABLE |= {"optimistic_remove", "weights", "batches", "minimum_batch"}


@pytest.mark.parametrize("kind", [*KINDS, *FURTHER])
def test_every_field_of_a_wrong_type_is_named(made: Any, kind: str) -> None:
    content = made[kind]
    for path in objects(content):
        for field, held in at(content, path).items():
            if (*path, field) == ("digest",):
                continue
            values = [one for one in NOWHERE if type(one) is not type(held)]
            values += [] if field in NULLABLE else [None]
            if field == "infinite":  # any integer; that masses add up to one is checked later
                values = [one for one in values if one != 10**400]
            for value in values:
                other = changed(content, (*path, field), value)
                assert why_not(other), (path, field, value)
                assert field in refusal(other), (path, field, value)
            if type(held) is int and field not in ("eps0", "epsilon", "infinity_mass"):
                # an integer of JSON Schema, not of this package
                assert field in refusal(changed(content, (*path, field), float(min(held, 2))))


OUTSIDE: dict[str, list[Any]] = {
    "schema": [0, 2, 1.0, True],
    "eps0": [-1e-300, -1, 1.1e300, 10**301],
    "users": [0, -3, 10**9 + 1, 2**63],
    "population": [0, -3, 2**53 + 1],
    "categories": [1, 0, -3, 2**53 + 1],
    "gamma": [-0.1, 1.1, 2],
    "buckets": [1, -1, 2**53 + 1],
    "size": [0, -1, 2**53 + 1],
    "reduction": ["", "Auto", "tail"],
    "variant": ["tail", ""],
    "kind": ["", "laplace", "General"],
    "messages_per_user": [0, 1, -1, 10**12 + 1],
    "messages": [0, -1, 10**9 + 1],
    "exposure": [-1e-300, 1.1],
    "persistent": [True],
    "weights": [[0.5, 0.5], 1],
    "batches": [[4, 4], 1],
    "random_batches": [True],
    "minimum_batch": [1, 2],
    "probability": [0.0, 1.0, 1, -0.5],
    "threshold": [0, -1, 501],
    "noise_multiplier": [0, 0.0, -1.0, 1e13],
    "steps": [0, -1, 10**9 + 1],
    "selected": [0, -1, 10**9 + 1],
    "released": [0, -1, 10**9 + 1],
    "passes": [0, -1, 10**4 + 1],
    "count": [0, -1, 10**30],
    "infinity_mass": [-1e-300, 1.1],
    "adjacency": ["", "add-one"],
    "epsilon": [-1e-300, -1, 1.1e300],
    "delta": [-1e-300, 1.0000000000000002, 2],
    "numerator": [0, -1, 2**64 + 1],
    "exponent": [-1, 129],
    "bits": [63, 4097, -1],
    "cells": [63, 2**14 + 1, -1],
    "first": [-(2**16) - 1, 2**16 + 1],
    "infinite": [-1],
    "masses": [[], [-1], [0.5], [[1]], [True], [None]],
    "losses": [[1e7], [-1e7], ["0"], [True], [None]],
    "probabilities": [[-1e-300], [1.1], ["0"], [True]],
    "channel": [[], [[1.0]], [[1.0], []], [[1.1], [0.5]], [[-0.1], [1.0]], [[True], [False]]],
    "witnesses": [[None], [[]], [{}]],
    "rounds": [[None], [[]], [{}]],
}


@pytest.mark.parametrize("field", OUTSIDE)
def test_every_field_out_of_range_is_named(made: Any, field: str) -> None:
    tried = 0
    for content in made.values():
        for path in objects(content):
            if field not in at(content, path):
                continue
            for value in OUTSIDE[field]:
                other = changed(content, (*path, field), value)
                if type(value) is not float or field != "schema":  # JSON Schema takes 1.0 for 1
                    assert why_not(other), (path, value)
                said = refusal(other)
                assert re.search(rf"\b{field}\b", said), (path, value, said)
                tried += 1
    assert tried


def test_all_fields_are_tried(made: Any) -> None:
    """Every scalar that a certificate holds has values out of its range, where there are any."""
    fields = {
        field
        for content in made.values()
        for path in objects(content)
        for field in at(content, path)
    }
    free = {"theorem", "interactive", "everyone", "digest"}
    inner = {"protocol", "claim", "grid", "round", "randomizer", "mechanism", "forward", "backward"}
    inner |= {"shuffler"}
    tables = {"remove", "add", "optimistic_remove", "optimistic_add"}
    assert fields == {*OUTSIDE, *free, *inner, *tables}


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("rappor", {"eps0": 1.0, "categories": -3}, "categories must be"),
        ("rappor", {"further": 1}, "'further'"),
        ("by clones", {"gamma": 0.5}, "'gamma'"),
        ("subsets", {"size": 5}, "size must be less than categories"),
        ("hashing", {"buckets": 1}, "buckets must be"),
        ("hadamard", {"eps0": 0.0}, "eps0 must be"),
        ("a matrix", {"channel": [[0.5, 0.5], [1.0]]}, "channel must have rows of one length"),
        ("a matrix", {"channel": [[0.5, 0.4], [1.0, 0.0]]}, "channel must have rows of sum 1"),
        ("a matrix", {"channel": [[1.0] * 2049] * 2}, "channel must have rows"),
    ],
)
@pytest.mark.parametrize("reduction", ["auto", "blanket", "clones", "strong"])
def test_a_randomizer_is_checked_whatever_the_theorem(
    made: Any, kind: str, change: dict[str, Any], said: str, reduction: str
) -> None:
    """A theorem that needs eps0 alone says nothing about a deployment that cannot be."""
    content = copy.deepcopy(made[kind])
    held = content["protocol"]["rounds"][0]["round"]
    held["reduction"] = reduction
    held["randomizer"] |= change
    assert said in refusal(content)


def test_what_is_refused_with_clones_is_verified_without_the_fault(made: Any) -> None:
    """The same description with three categories is one that the clones' certificate proves."""
    content = copy.deepcopy(made["by clones"])
    held = content["protocol"]["rounds"][0]["round"]
    assert held["reduction"] == "clones"
    held["randomizer"] = {"kind": "rappor", "eps0": 1.0, "categories": 3}
    assert refusal(content) == ""
    held["randomizer"]["categories"] = -3
    assert "categories must be an integer in [2, 9007199254740992], got -3" in refusal(content)


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("subsampled", {"population": 7}, "population must be at least users"),
        ("two values", {"variant": "exact"}, "variant"),
        (
            "pure blocks",
            {"mechanism": {"kind": "pure", "epsilon": 0.0}},
            "epsilon must be a number in (0",
        ),
        ("one step of some", {"released": 4}, "released must be at most steps"),
        ("pure blocks", {"selected": 4}, "selected must be at most steps"),
        ("one step of some", {"selected": 2}, "released goes with"),
        ("one step of some", {"passes": 2}, "released goes with"),
    ],
)
def test_fields_that_limit_each_other(made: Any, kind: str, change: Any, said: str) -> None:
    content = copy.deepcopy(made[kind])
    content["protocol"]["rounds"][0]["round"] |= change
    assert said in refusal(content)


@pytest.mark.parametrize("name", ["remove", "add", "optimistic_remove", "optimistic_add"])
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"losses": [0.0, 0.0], "probabilities": [0.5, 0.5]}, "must ascend"),
        ({"losses": [0.0], "probabilities": [0.5, 0.5]}, "as many losses"),
    ],
)
def test_tables_are_checked_even_if_nothing_follows_from_them(
    made: Any, name: str, change: Any, said: str
) -> None:
    content = copy.deepcopy(made["two tables"])
    held = content["protocol"]["rounds"][0]["round"]
    held[name] = {**held["remove"], **change}
    assert said in refusal(content)
    assert name in refusal(content)


@pytest.mark.parametrize("kind", ["clones", "pure steps", "two tables"])
def test_a_field_given_twice_is_refused_wherever_it_is(made: Any, kind: str) -> None:
    """The first of the two is what a reader may see; also if both say the same."""
    content = made[kind]
    for path in objects(content):
        for field, value in at(content, path).items():
            for other in (value, None):
                marked = changed(content, (*path, "MARK"), other)
                text = json.dumps(marked).replace('"MARK"', json.dumps(field))
                with pytest.raises(ValueError, match=f"field '{field}' is given twice") as caught:
                    Certificate.from_json(text)
                assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("-Infinity", "Infinity"),
        ("1e400", "double"),
        ("9" * 5000, "JSON"),
        ("[" * 100_000 + "]" * 100_000, "JSON"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "JSON"),
        ("[" * 200 + "]" * 200, "."),
    ],
)
@pytest.mark.parametrize("field", ["delta", "users", "bits", "first", "count"])
def test_numbers_that_are_none_and_deep_nesting(
    made: Any, field: str, text: str, said: str
) -> None:
    whole = json.dumps(made["clones"])
    altered = re.sub(rf'("{field}": )[-0-9.e]+', rf"\g<1>{text}", whole, count=1)
    assert altered != whole
    with pytest.raises(ValueError, match=said) as caught:
        Certificate.from_json(altered)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_the_published_schema_is_that_of_the_code(pytestconfig: pytest.Config) -> None:
    jsonschema.Draft202012Validator.check_schema(schema.DOCUMENT)
    text = json.dumps(schema.DOCUMENT, indent=2) + "\n"
    assert (pytestconfig.rootpath / PUBLISHED).read_text(encoding="utf-8") == text
    assert math.inf not in json.loads(text).values()


def test_a_digest_has_its_form(made: dict[str, dict[str, Any]]) -> None:
    content = made["clones"]
    assert why_not(content) == ""
    for digest in ("sha256:0", content["digest"].upper(), content["digest"] + "0", "md5"):
        assert "digest must be a text of the form" in why_not(changed(content, ("digest",), digest))
