# mypy: disable-error-code="misc"
# Flower is optional, so its classes are of unknown type here.
"""Clipping and randomizing of a client's update before it leaves the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Error,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from numpy.typing import NDArray

from shuffle_accountant import validation as validate
from shuffle_accountant.numerics.secure import secure_generator
from shuffle_accountant.randomizers.noise import GaussianVectors
from shuffle_accountant.randomizers.vectors import VectorRandomizer

WEIGHT = "num-examples"
# Where a client's state counts the rounds that it took part in.
_STATE, _ROUNDS = "shuffle-accountant", "rounds"
# Flower's code for a mod whose conditions are not met.
_REFUSED = 300


def only_arrays(content: Any) -> tuple[str, Any]:
    """The one record of arrays of a message, with its key."""
    records = list(content.array_records.items())
    if len(records) != 1:
        raise ValueError(f"content must hold one ArrayRecord, got {len(records)}")
    key, arrays = records[0]
    return str(key), arrays


def dimension_of(arrays: Any) -> int:
    """Number of floating-point numbers in a model."""
    return sum(one.size for one in _arrays(arrays).values() if _is_float(one))


def update_of(received: Any, returned: Any) -> NDArray[np.float64]:
    """Returned − received over all floating-point arrays; the zero vector if that makes no sense.

    An error would tell everybody of that one client.
    """
    before = {key: one for key, one in _arrays(received).items() if _is_float(one)}
    zero = np.zeros(dimension_of(received))
    try:
        after = _arrays(returned)
        if any(after[k].shape != one.shape or not _is_float(after[k]) for k, one in before.items()):
            return zero
        with np.errstate(all="ignore"):  # a warning would tell of it, too
            parts = [
                after[key].astype(np.float64).ravel() - one.astype(np.float64).ravel()
                for key, one in before.items()
            ]
    except Exception:
        return zero
    update = np.concatenate(parts) if parts else zero
    return update if np.all(np.isfinite(update)) else zero


def clipped(update: NDArray[np.float64], max_norm: float) -> NDArray[np.float64]:
    """The update scaled down to a Euclidean norm of at most ``max_norm``."""
    largest = float(np.max(np.abs(update), initial=0.0))
    if largest == 0.0:
        return update
    unit = update / largest  # no square overflows or vanishes
    norm = float(np.linalg.norm(unit))
    return update if largest * norm <= max_norm else unit * (max_norm * (1.0 - 1e-12) / norm)


def updated(received: Any, update: NDArray[np.float64]) -> Any:
    """A new record: received + update, each array of its type; integer arrays as they were."""
    found, place = {}, 0
    for key, one in _arrays(received).items():
        if _is_float(one):
            part = update[place : place + one.size].reshape(one.shape)
            place += one.size
            # a number beyond the type's range would be an infinity that the next round starts from
            most = np.finfo(one.dtype).max
            one = np.clip(one.astype(np.float64) + part, -most, most).astype(one.dtype)
        found[key] = Array(np.asarray(one))
    return ArrayRecord(found)


def like(received: Any, arrays: Any) -> Any:
    """The arrays with the types of those received: averages of integers are rounded."""
    found = {}
    after = _arrays(arrays)
    for key, one in _arrays(received).items():
        new = after[key]
        if not _is_float(one) and _is_float(new):
            new = np.rint(new)
        found[key] = Array(np.asarray(new.astype(one.dtype)))
    return ArrayRecord(found)


def _arrays(record: Any) -> Mapping[str, NDArray[Any]]:
    return {key: np.asarray(one.numpy()) for key, one in record.items()}


def _is_float(array: NDArray[Any]) -> bool:
    return array.dtype.kind == "f"


class LocalRandomizerMod:
    """Clips and randomizes what a client trained, and sends nothing else.

        app = ClientApp(mods=[LocalRandomizerMod(PrivUnit(dimension=650, eps0=4.0), max_norm=1.0,
                                                 max_rounds=100)])

    It must be the *outermost* mod, the first of the list. It acts on messages of type TRAIN alone.
    The update is what the application returned minus what it received, over all floating-point
    arrays. An exception or an update that is not finite becomes the zero vector, so that whether a
    client answers does not depend on its data. The reply is built from scratch: the same keys, the
    received arrays plus the randomized update, integer arrays as received, and a weight of 1.
    Losses, other metrics and numbers of examples do not leave the client.

    What the client is promised, eps0 (or the noise), is fixed here, whatever the server asks for;
    so is for how many rounds. They are counted in the client's state before anything is sent.

    Args:
        randomizer: what is applied to the clipped update; a `VectorRandomizer` of as many
            dimensions as the model has floating-point numbers, or `GaussianVectors`.
        max_norm: Euclidean norm that updates are clipped to, finite, > 0.
        max_rounds: rounds that this client takes part in at most, >= 1.
    """

    def __init__(
        self, randomizer: VectorRandomizer | GaussianVectors, *, max_norm: float, max_rounds: int
    ) -> None:
        if not isinstance(randomizer, VectorRandomizer | GaussianVectors):
            raise TypeError(
                "randomizer must be a VectorRandomizer or GaussianVectors, got "
                f"{validate.shown(randomizer)}"
            )
        self.randomizer = randomizer
        self.max_norm = validate.positive(max_norm=max_norm)
        self.max_rounds = validate.integer(minimum=1, max_rounds=max_rounds)

    def __call__(self, msg: Any, ctxt: Any, call_next: Callable[[Any, Any], Any]) -> Any:
        """Answer a message; see the class."""
        if msg.metadata.message_type.split(".")[0] != MessageType.TRAIN:
            return call_next(msg, ctxt)
        key, received = only_arrays(msg.content)
        # the answer is built from copies: the application may do to its message what it likes
        dimension = dimension_of(received)
        wanted = getattr(self.randomizer, "dimension", dimension)
        if dimension != wanted:
            return self._refused(msg, f"the model has {dimension} numbers, the randomizer {wanted}")
        if not self._counted(ctxt):
            return self._refused(msg, f"this client takes part in {self.max_rounds} rounds at most")
        before = updated(received, np.zeros(dimension))
        update = self._trained(before, msg, ctxt, call_next)
        weight = MetricRecord({WEIGHT: 1})
        content = RecordDict({key: updated(before, self._randomized(update)), "metrics": weight})
        return Message(content=content, reply_to=msg)

    def _trained(
        self, before: Any, msg: Any, ctxt: Any, call_next: Callable[[Any, Any], Any]
    ) -> NDArray[np.float64]:
        """The update; the zero vector if there is none."""
        state = ctxt.state[_STATE]
        rounds = state[_ROUNDS]
        try:
            reply = call_next(msg, ctxt)
            if reply.has_error():
                return np.zeros(dimension_of(before))
            _, returned = only_arrays(reply.content)
            return update_of(before, returned)
        except Exception:
            return np.zeros(dimension_of(before))
        finally:  # whatever the application did to the state
            ctxt.state[_STATE] = ConfigRecord({_ROUNDS: rounds})

    def _randomized(self, update: NDArray[np.float64]) -> NDArray[np.float64]:
        one = self.randomizer
        scale = self.max_norm / (1.0 if isinstance(one, GaussianVectors) else one.radius)
        ball = clipped(update, self.max_norm) / scale
        message = one.randomize(ball[np.newaxis, :], secure_generator())[0]
        return np.asarray(message) * scale

    def _counted(self, ctxt: Any) -> bool:
        """Count a round; False if there is none left."""
        kept = ctxt.state.get(_STATE, {})
        rounds = int(kept.get(_ROUNDS, 0))
        if rounds >= self.max_rounds:
            return False
        ctxt.state[_STATE] = ConfigRecord({_ROUNDS: rounds + 1})
        return True

    def _refused(self, msg: Any, reason: str) -> Any:
        return Message(Error(code=_REFUSED, reason=f"LocalRandomizerMod: {reason}"), reply_to=msg)
