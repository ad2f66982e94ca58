"""Sweeps: one question at every point of a grid of parameters, on cores or a cluster.

The work goes through joblib, so its own configuration says where it is done:

    with joblib.parallel_config(backend="dask"):
        sweep(question, {"eps0": [1.0, 2.0, 4.0], "users": [10**4, 10**6]})
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import Bracket
from shuffle_accountant.progress import progress_bar

__all__ = ["SweepRecord", "sweep", "sweep_records"]

# Largest number of workers; joblib itself counts them in a C integer.
_MOST_JOBS = 2**15


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """One point of a sweep and what was found there.

    Attributes:
        parameters: the point, by name.
        answer: return value of the function; None if it raised `ValueError`.
        error: the message of that error, one line that names the argument; else None.
    """

    parameters: dict[str, Any]
    answer: Any = None
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: a bracket as its ends and its reduction, infinity as "inf"."""
        return {name: plain(getattr(self, name)) for name in ("parameters", "answer", "error")}


def sweep(
    function: Callable[..., Any],
    grid: Mapping[str, Iterable[Any]],
    *,
    jobs: int | None = None,
    progress: bool | Callable[[float], None] = True,
) -> list[SweepRecord]:
    """Call ``function`` at every point of a grid and collect the answers.

    An interruption stops the workers and is raised as `KeyboardInterrupt`; to keep what was found
    until then, use `sweep_records`.

    Args:
        function: called with the parameters as keywords; returns a `Bracket`, a number, or anything
            else that can be pickled. One of the calibrations, say, or a function that builds a
            protocol and asks for its epsilon.
        grid: for each parameter the values it takes.
        jobs: number of workers, -1 for one per core. By default `joblib.parallel_config` decides,
            and without it the calling process does all the work itself.
        progress: True for a bar on a terminal, if the sweep takes over a second; False for none;
            or a function that is called with the share done, in (0, 1], after each point.

    Returns:
        One record per point, the last parameter varying fastest. A point at which the function
        raises `ValueError`, because it is out of range or has no answer, is a record with the
        error's message; all other errors are raised here.
    """
    points = _points(grid)
    found = []
    shown: AbstractContextManager[Callable[[float], Any]] = nullcontext(lambda share: None)
    if not isinstance(progress, bool):
        shown = nullcontext(validate.function(progress=progress))
    elif progress:
        shown = progress_bar("sweeping")
    with shown as report:
        for record in _records(function, points, jobs):
            found.append(record)
            report(len(found) / len(points))
    return found


def sweep_records(
    function: Callable[..., Any], grid: Mapping[str, Iterable[Any]], *, jobs: int | None = None
) -> Iterator[SweepRecord]:
    """The records of `sweep`, in the same order, each as soon as it and those before are there.

    Arguments are those of `sweep`. Stopping early stops the workers. There is no progress bar.
    """
    return _records(function, _points(grid), jobs)


def _points(grid: Mapping[str, Iterable[Any]]) -> list[dict[str, Any]]:
    """All combinations, the last parameter varying fastest."""
    grid = validate.instance(Mapping, grid=grid)  # type: ignore[type-abstract]
    axes = []
    for name, values in grid.items():
        if not isinstance(name, str):
            raise TypeError(f"grid must have names of parameters as keys, got {name!r:.60}")
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise TypeError(f"grid must have a list of values for {name}, got {values!r:.60}")
        # NumPy's scalars become Python's, which JSON knows
        axes.append([v.item() if isinstance(v, np.generic) else v for v in values])
    return [dict(zip(grid, values, strict=True)) for values in product(*axes)]


def _records(
    function: Callable[..., Any], points: list[dict[str, Any]], jobs: int | None
) -> Iterator[SweepRecord]:
    """Set the work going; joblib is imported here because only sweeps need it."""
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r:.60}")
    if jobs is not None:
        jobs = validate.integer(minimum=-_MOST_JOBS, maximum=_MOST_JOBS, jobs=jobs)
    if jobs == 0:
        raise ValueError("jobs must be an integer other than 0, or None, got 0")
    import joblib

    try:
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator")
    except ValueError:  # some backends can only hand over everything at once
        parallel = joblib.Parallel(n_jobs=jobs)
    records: Iterable[SweepRecord] = parallel(
        joblib.delayed(_record)(function, point) for point in points
    )
    return iter(records)


def _record(function: Callable[..., Any], point: dict[str, Any]) -> SweepRecord:
    """Record of the function's answer, or of its ValueError, at one point."""
    try:
        return SweepRecord(parameters=point, answer=function(**point))
    except ValueError as error:
        return SweepRecord(parameters=point, error=" ".join(str(error).split()))


def plain(value: Any) -> Any:
    """The value in JSON types; what has none is described in words."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, Bracket):
        return plain({name: getattr(value, name) for name in ("lower", "upper", "reduction")})
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return plain(value.to_dict()) if hasattr(value, "to_dict") else repr(value)
