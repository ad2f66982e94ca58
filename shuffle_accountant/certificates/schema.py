"""Certificates: plain JSON with a digest of its content, their JSON Schema, and a check against it.

`DOCUMENT` is the only statement of which fields a certificate has and in which ranges: it is what
files are checked with when they are read, and what ``docs/reference/certificate.schema.json``
publishes. An object has the fields of its schema and no other; a field that may be absent does not
exist, so that each kind of randomizer, mechanism and round is one set of fields. Conditions between
two fields (``users`` <= ``population``) are checked in `description`.

An integer is one that is written without point and exponent.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shuffle_accountant.validation import json_object, shown

VERSION = 1
_DRAFT = "https://json-schema.org/draft/2020-12/schema"

Schema = Mapping[str, Any]


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def _integer(minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": minimum, "maximum": maximum}


def _number(minimum: float, maximum: float) -> dict[str, Any]:
    return {"type": "number", "minimum": minimum, "maximum": maximum}


def _list(items: Any, minimum: int, maximum: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": minimum, "maxItems": maximum}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}"}


def _nullable(schema: Any) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, schema]}


def _kind(name: str, **properties: Any) -> dict[str, Any]:
    return _object(kind={"const": name}, **properties)


# Largest finite claim or parameter that is written as a decimal number.
_LARGEST = 1e300
_POSITIVE = {"type": "number", "exclusiveMinimum": 0, "maximum": _LARGEST}
_EPSILON = _number(0, _LARGEST)
_WHOLE = 2**53
_CATEGORIES = _integer(2, _WHOLE)
_ADJACENCIES = ["replace-one", "zero-out", "add-remove"]
# An integer over 2^bits; the sum of a distribution's is checked to be 2^bits exactly.
_MASS = {"type": "integer", "minimum": 0}
# Most masses of one witness, losses of one table, entries of a channel, rounds of a protocol.
_MOST_MASSES, _MOST_LOSSES, _MOST_ENTRIES, _MOST_ROUNDS = 1 << 16, 1 << 20, 4096, 1 << 12
# With more, no certificate is made: profiles would be sums over too many counts.
_MOST_USERS = _MOST_STEPS = 10**9
_MOST_PASSES = 10**4
_MOST_COUNT = 10**12
_MOST_THRESHOLD = 500
# The largest double below 1.
_BELOW_ONE = 1.0 - 2.0**-53

_RANDOMIZERS = {
    "general": _kind("general", eps0=_EPSILON, interactive={"type": "boolean"}),
    "randomized-response": _kind("randomized-response", categories=_CATEGORIES, eps0=_EPSILON),
    "randomized-response-by-gamma": _kind(
        "randomized-response", categories=_CATEGORIES, gamma=_number(0, 1)
    ),
    "discrete": _kind(
        "discrete", channel=_list(_list(_number(0, 1), 1, _MOST_ENTRIES), 2, _MOST_ENTRIES)
    ),
    "hadamard-response": _kind("hadamard-response", categories=_CATEGORIES, eps0=_POSITIVE),
    "rappor": _kind("rappor", categories=_CATEGORIES, eps0=_POSITIVE),
    "local-hashing": _kind(
        "local-hashing", categories=_CATEGORIES, eps0=_POSITIVE, buckets=_integer(2, _WHOLE)
    ),
    "subset-selection": _kind(
        "subset-selection", categories=_CATEGORIES, eps0=_POSITIVE, size=_integer(1, _WHOLE)
    ),
}
_MECHANISMS = {
    "gaussian": _kind(
        "gaussian",
        noise_multiplier={"type": "number", "exclusiveMinimum": 0, "maximum": 1e12},
    ),
    "pure": _kind("pure", epsilon=_POSITIVE),
}
_SHUFFLE = {
    "randomizer": {"oneOf": [_ref(name) for name in _RANDOMIZERS]},
    "users": _integer(1, _MOST_USERS),
    "population": _nullable(_integer(1, _WHOLE)),
    "reduction": {"enum": ["auto", "blanket", "clones", "strong"]},
    "variant": {"enum": [None, "exact", "paper"]},
}
_SEVERAL = {"messages_per_user": _integer(2, _MOST_COUNT)}
_MESSAGES = {"messages": _integer(1, _MOST_USERS)}
_NONE = {"enum": [None]}
_ROUNDS = {
    "shuffle": _object(**_SHUFFLE),
    "shuffle-several": _object(**_SHUFFLE, **_SEVERAL),
    "shuffle-several-of": _object(**_SHUFFLE, **_SEVERAL, **_MESSAGES),
    "shuffle-of": _object(**_SHUFFLE, **_MESSAGES),
    "shuffle-exposed": _object(
        **_SHUFFLE,
        shuffler=_object(
            exposure=_number(0, 1),
            everyone={"type": "boolean"},
            persistent={"enum": [False]},
            weights=_NONE,
            batches=_NONE,
            random_batches={"enum": [False]},
            minimum_batch=_NONE,
        ),
    ),
    "sample-and-threshold": _kind(
        "sample-and-threshold",
        probability={"type": "number", "exclusiveMinimum": 0, "maximum": _BELOW_ONE},
        threshold=_integer(1, _MOST_THRESHOLD),
        adjacency={"enum": ["add-remove", "replace-one"]},
    ),
    "allocation": _kind(
        "allocation",
        mechanism={"oneOf": [_ref(name) for name in _MECHANISMS]},
        steps=_integer(1, _MOST_STEPS),
        selected=_integer(1, _MOST_STEPS),
        released=_nullable(_integer(1, _MOST_STEPS)),
        passes=_integer(1, _MOST_PASSES),
    ),
    "pld": _kind(
        "pld",
        adjacency={"enum": _ADJACENCIES},
        remove=_ref("table"),
        add=_nullable(_ref("table")),
        optimistic_remove=_nullable(_ref("table")),
        optimistic_add=_nullable(_ref("table")),
    ),
}
_COUNT = _integer(1, _MOST_COUNT)
# Count of a witness: of a block of an allocation, up to the number of rounds times blocks.
_COUNT_OF_WITNESS = _integer(1, _MOST_COUNT * _MOST_STEPS)
_ONE_ORDER = {
    "theorem": {"type": "string"},
    "count": _COUNT_OF_WITNESS,
    "forward": _ref("law"),
}

DOCUMENT: dict[str, Any] = {
    "$schema": _DRAFT,
    "title": "Certificate of shuffle_accountant",
    **_object(
        schema={"const": VERSION},
        protocol=_object(
            adjacency={"enum": [None, *_ADJACENCIES]},
            rounds=_list(_object(round=_ref("round"), count=_COUNT), 0, _MOST_ROUNDS),
        ),
        adjacency={"enum": [None, *_ADJACENCIES]},
        claim=_object(epsilon=_EPSILON, delta=_number(0, 1)),
        grid=_object(
            numerator=_integer(1, 1 << 64),
            exponent=_integer(0, 128),
            bits=_integer(64, 4096),
            cells=_integer(64, 1 << 14),
        ),
        witnesses=_list(_ref("witness"), 0, 2 * _MOST_ROUNDS),
        digest={"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"},
    ),
    "$defs": {
        **_RANDOMIZERS,
        **_MECHANISMS,
        **_ROUNDS,
        "round": {"oneOf": [_ref(name) for name in _ROUNDS]},
        "table": _object(
            losses=_list(_number(-1e6, 1e6), 0, _MOST_LOSSES),
            probabilities=_list(_number(0, 1.001), 0, _MOST_LOSSES),
            infinity_mass=_number(0, 1),
        ),
        "law": _object(
            first=_integer(-_MOST_MASSES, _MOST_MASSES),
            masses=_list(_MASS, 1, _MOST_MASSES),
            infinite=_MASS,
        ),
        "witness": {
            "oneOf": [_object(**_ONE_ORDER), _object(**_ONE_ORDER, backward=_ref("law"))],
        },
    },
}

# Python's types of each type, and what messages call it.
_TYPES: Mapping[str, tuple[Any, str]] = {
    "object": (dict, "an object"),
    "array": (list, "a list"),
    "string": (str, "a text"),
    "integer": (int, "an integer"),
    "number": ((int, float), "a number"),
    "boolean": (bool, "true or false"),
    "null": (type(None), "null"),
}


def check(value: Any, name: str, schema: Schema = DOCUMENT) -> None:
    """Check a value that was read from JSON, by default a whole certificate."""
    schema = _resolved(schema)
    if "oneOf" in schema:
        check(value, name, _alternative(value, name, schema["oneOf"]))
        return
    if "const" in schema or "enum" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        if not any(type(value) is type(one) and value == one for one in allowed):
            texts = ["null" if one is None else repr(one) for one in allowed]
            raise _wrong(name, " or ".join(texts), value)
        return
    kind = schema["type"]
    # True and False are integers to Python
    types, text = _TYPES[kind]
    if not isinstance(value, types) or (kind != "boolean" and isinstance(value, bool)):
        raise _wrong(name, text, value)
    if kind == "object":
        _check_fields(value, name, schema)
    elif kind == "array":
        least, most = schema["minItems"], schema["maxItems"]
        if not least <= len(value) <= most:
            raise ValueError(f"{name} must have {least} to {most} entries, got {len(value)}")
        for i, one in enumerate(value):
            check(one, f"{name}[{i}]", schema["items"])
    elif kind in ("integer", "number"):
        _check_range(value, name, schema)
    elif "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        raise _wrong(name, f"a text of the form {schema['pattern']}", value)


def _check_fields(value: dict[Any, Any], name: str, schema: Schema) -> None:
    wanted = schema["properties"]
    for field in wanted:
        if field not in value:
            raise ValueError(f"{name} must be an object with the field {field!r}, which is missing")
    for field in value:
        if field not in wanted:
            fields = ", ".join(wanted)
            raise ValueError(
                f"{name} must be an object with the fields {fields} alone, got {shown(field)} too"
            )
    for field, inner in wanted.items():
        check(value[field], f"{name}.{field}", inner)


def _check_range(value: float, name: str, schema: Schema) -> None:
    least, most, above = schema.get("minimum"), schema.get("maximum", math.inf), "["
    inside = least is not None and least <= value <= most  # NaN is in no range
    if least is None:
        least, above = schema["exclusiveMinimum"], "("
        inside = least < value <= most
    allowed = f"in {above}{shown(least)}, {shown(most)}]" if "maximum" in schema else f">= {least}"
    if not inside:
        raise _wrong(name, f"{_TYPES[schema['type']][1]} {allowed}", value)


def _alternative(value: Any, name: str, options: list[Schema]) -> Schema:
    """The one of some schemas that the value's kind, its being null or its fields point to."""
    resolved = [_resolved(option) for option in options]
    if options[0] == {"type": "null"}:
        return resolved[0] if value is None else resolved[1]
    if not isinstance(value, dict):
        raise _wrong(name, "an object", value)
    kinds = [o["properties"].get("kind", {}).get("const") for o in resolved]
    kind = value.get("kind")
    fitting = [o for o, own in zip(resolved, kinds, strict=True) if own == kind]
    # a kind alone is missing, where another object needs none
    missing = kind is None and any(set(o["properties"]) == {*value, "kind"} for o in resolved)
    if missing or not fitting:
        known = ", ".join(dict.fromkeys(repr(one) for one in kinds if one is not None))
        raise _wrong(f"{name}.kind", f"one of {known}", kind)
    # of two with the same kind: the one whose fields are nearest to the value's
    return min(fitting, key=lambda one: len(set(one["properties"]) ^ set(value)))


def _resolved(schema: Schema) -> Schema:
    """The schema itself, or the one that it refers to."""
    found: Schema = schema
    if "$ref" in schema:
        found = DOCUMENT["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    return found


def _wrong(name: str, allowed: str, value: Any) -> ValueError:
    return ValueError(f"{name} must be {allowed}, got {shown(value):.100}")


@dataclass(frozen=True)
class Certificate:
    """A claim (ε, δ) about a protocol, with what is needed to check it.

    Made by `shuffle_accountant.certificates.certify` or an accountant's ``certificate``; checked by
    `shuffle_accountant.certificates.verify`. That a certificate can be read says nothing yet.

    Attributes:
        text: its JSON.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"certificate must be a text, got {type(self.text).__name__}")
        check(self.content, "certificate")

    @property
    def content(self) -> Any:
        """The content of the JSON."""
        return json_content("certificate", self.text, _finite)

    @property
    def epsilon(self) -> float:
        """The claim's ε, nats."""
        return float(self.content["claim"]["epsilon"])

    @property
    def delta(self) -> float:
        """The claim's δ."""
        return float(self.content["claim"]["delta"])

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> Certificate:
        """A certificate of this content, with its digest."""
        if not isinstance(content, dict):
            raise TypeError(f"content must be a dictionary, got {type(content).__name__}")
        body = {name: value for name, value in content.items() if name != "digest"}
        return cls(json.dumps({**body, "digest": digest_of(body)}, allow_nan=False))

    def to_json(self) -> str:
        """The text, from which `from_json` makes an equal certificate."""
        return self.text

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Inverse of `to_json`."""
        return cls(text)

    def __repr__(self) -> str:
        return f"Certificate(epsilon={self.epsilon!r}, delta={self.delta!r})"


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256 of the content without its digest, in a form that spaces and order do not change."""
    body = {name: value for name, value in content.items() if name != "digest"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def json_content(name: str, text: str, parse_float: Callable[[str], float] = float) -> Any:
    """What a text of JSON holds, which the messages of errors call ``name``."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(
            text, object_pairs_hook=json_object, parse_constant=refuse, parse_float=parse_float
        )
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name} must be JSON: {' '.join(str(error).split())}") from None


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text:.60} is no double")
    return value
