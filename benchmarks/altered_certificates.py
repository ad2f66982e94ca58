"""Certificates with hostile values in them: `python -m benchmarks.altered_certificates`.

A small certificate of every kind of round is altered at random in one field or two, and its digest
made anew. A file that is refused says why in one line; one that is verified must be true: its claim
is not below what the package certifies as a lower end for the protocol that it describes. No check
may take more than it is allowed, in units of work and, with much room, in processor time.
"""

from __future__ import annotations

import argparse
import copy
import math
import random
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

import shuffle_accountant as sa
from shuffle_accountant.certificates import Certificate, certify, verify

# Units of work of one check, about three seconds, and the seconds that it may take.
MAX_WORK, MOST_SECONDS = 3e7, 60.0

_HOSTILE: tuple[Any, ...] = (
    *(0, 1, -1, 2, 3, 64, 1000, 10**6, 10**9, 10**12, 2**53, 2**63, 10**30, 10**400),
    *(0.0, -0.0, 0.5, 0.999, 1.5, 5e-324, 1e-300, 1e300, 1.7976931348623157e308, 1e-9, 50.0),
    *(None, True, False, "", "1", "auto", "clones", "strong", "exact", "zero-out", "two\nlines"),
    *([], {}, [[]], [0.5, 0.5], [1] * 100, {"kind": "general"}, [{}], {"": 0}),
    *(math.nan, math.inf, -math.inf, [[[[[[[[1]]]]]]]]),
)
_RESPONSE = sa.RandomizedResponse(categories=3, eps0=1.0)
_NOISY = sa.GaussianMechanism(noise_multiplier=3.0)
_PURE = sa.PureMechanism(epsilon=1.0)
_TABLE = sa.LossTable([-0.5, 0.5], [0.37754066879814546, 0.6224593312018546])
ROUNDS = {
    "clones": sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=8),
    "interactive": sa.ShuffleRound(sa.GeneralRandomizer(1.0, interactive=True), users=8),
    "subsampled": sa.ShuffleRound(sa.GeneralRandomizer(1.0), users=8, population=20),
    "two values": sa.ShuffleRound(sa.BinaryRandomizedResponse(eps0=1.0), users=8),
    "strong": sa.ShuffleRound(_RESPONSE, users=60, reduction="strong"),
    "by clones": sa.ShuffleRound(_RESPONSE, users=8, reduction="clones"),
    "response": sa.ShuffleRound(_RESPONSE, users=3),
    "gamma": sa.ShuffleRound(sa.RandomizedResponse.from_gamma(categories=3, gamma=0.5), users=3),
    "matrix": sa.ShuffleRound(sa.DiscreteRandomizer([[0.5, 0.3, 0.2], [0.2, 0.5, 0.3]]), users=2),
    "hadamard": sa.ShuffleRound(sa.HadamardResponse(categories=3, eps0=1.0), users=2),
    "rappor": sa.ShuffleRound(sa.RAPPOR(categories=3, eps0=1.0), users=2),
    "hashing": sa.ShuffleRound(sa.LocalHashing(categories=3, eps0=1.0), users=2),
    "subsets": sa.ShuffleRound(sa.SubsetSelection(categories=5, eps0=1.0), users=2),
    "one step": sa.RandomAllocation(_NOISY, steps=3, released=1),
    "pure steps": sa.RandomAllocation(_PURE, steps=2, passes=2),
    "pure blocks": sa.RandomAllocation(_PURE, steps=3, selected=2),
    "table": sa.PldRound.from_tables(_TABLE),
}


def made() -> dict[str, dict[str, Any]]:
    """The content of a certificate of three rounds of each kind, at δ = 1e-3."""
    return {
        name: certify(sa.Protocol([(one, 3)]), delta=1e-3).content for name, one in ROUNDS.items()
    }


def altered(rng: random.Random, contents: dict[str, dict[str, Any]]) -> tuple[str, Any]:
    """One of the contents with a field or two changed, and what was done."""
    kind = rng.choice(sorted(contents))
    found, done = copy.deepcopy(contents[kind]), [kind]
    for _ in range(rng.choice((1, 1, 1, 2))):
        path = rng.choice(_fields(found))
        holder = found
        for step in path[:-1]:
            holder = holder[step]
        held = holder[path[-1]]
        ways: list[Any] = [rng.choice(_HOSTILE)] * 2
        if isinstance(held, int | float) and not isinstance(held, bool):
            ways += [held + 1, held - 1, held * 2, held * 0.999, held * 1.001, -held]
        other = rng.choice(sorted(contents))
        ways.append(contents[other].get(path[0]))
        holder[path[-1]] = copy.deepcopy(rng.choice(ways))
        done.append(f"{path} = {holder[path[-1]]!r:.60}" if _printable(holder[path[-1]]) else "…")
    return "; ".join(done), found


def fault(content: Any) -> str:
    """What is wrong with how an altered content is received; nothing if that is in order."""
    start = time.process_time()
    try:
        certificate = Certificate.from_content(content)
        found = verify(certificate, max_work=MAX_WORK)
    except ValueError as error:
        return _said(str(error))
    taken = time.process_time() - start
    if taken > MOST_SECONDS:
        return f"took {taken:.0f} s of {MAX_WORK:.0e} units"
    return _untrue(certificate) if found.verified else _said(found.reason)


def _said(text: str) -> str:
    wrong = not text.strip() or len(text.splitlines()) != 1 or len(text) > 500
    return f"no line: {text!r:.200}" if wrong else ""


def _untrue(certificate: Certificate) -> str:
    """What contradicts a claim that is verified: the lower end of the protocol as it is read."""
    epsilon, delta = certificate.epsilon, certificate.delta
    try:
        protocol = sa.Protocol.from_dict(certificate.content["protocol"])
    except (ValueError, TypeError) as error:
        return f"verified what cannot be: {error!s:.200}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if 0.0 < delta < 1.0:
            lower = sa.epsilon(protocol, delta=delta).lower
            return "" if lower <= epsilon else f"verified {epsilon!r} below {lower!r}"
        lower = sa.delta(protocol, epsilon=epsilon).lower
        return "" if lower <= delta else f"verified delta = {delta!r} below {lower!r}"


def _fields(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all fields but the digest, and to three entries of each list."""
    found: list[tuple[Any, ...]] = []
    if isinstance(node, dict):
        steps: Sequence[Any] = [name for name in node if name != "digest"]
    else:
        steps = sorted({0, len(node) // 2, len(node) - 1}) if node else []
    for step in steps:
        found.append((*path, step))
        if isinstance(node[step], dict | list):
            found += _fields(node[step], (*path, step))
    return found


def _printable(value: Any) -> bool:
    return not isinstance(value, int) or value.bit_length() < 4000


def main(arguments: Sequence[str] | None = None) -> int:
    """Alter certificates; 1 if one of them was received otherwise than it should."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.altered_certificates", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=5000, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    given = parser.parse_args(arguments)
    rng, contents = random.Random(given.seed), made()
    faults = 0
    for case in range(given.count):
        done, content = altered(rng, contents)
        wrong = fault(content)
        if wrong:
            faults += 1
            print(f"{case}: {done}\n    {wrong}", flush=True)
    print(f"{given.count} altered certificates, seed {given.seed}: {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
