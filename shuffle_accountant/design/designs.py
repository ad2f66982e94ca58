"""The questions that a design answers; candidates are calibrated independently of one another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shuffle_accountant import validation as validate
from shuffle_accountant.design.answers import Design, DesignRow, Excluded
from shuffle_accountant.design.candidates import Candidate
from shuffle_accountant.design.histograms import frequency_candidates
from shuffle_accountant.design.question import Question
from shuffle_accountant.design.vectors import mean_candidates
from shuffle_accountant.engine.question import warn_if_delta_is_large
from shuffle_accountant.randomizers.subset_selection import SubsetSelection
from shuffle_accountant.sweeping import sweep


def frequency(
    *,
    users: int,
    min_users: int | None = None,
    participation: float | None = None,
    colluding: int = 0,
    categories: int,
    target_epsilon: float,
    delta: float,
    rounds: int = 1,
    tolerance: float = 1e-3,
    jobs: int | None = None,
) -> Design:
    """Calibrated mechanisms for estimating the frequencies of many categories, with their errors.

    Candidates: k-ary randomized response, RAPPOR, Hadamard response, subset selection (its size
    chosen), local hashing (its range chosen), a randomized bit per category, noise messages of
    three distributions, and the augmented shuffle with Poisson, asymmetric and one-sided geometric
    dummies; the same randomizers without a shuffler; Gaussian, Laplace, discrete Gaussian and
    discrete Laplace noise of a trusted curator. Each is calibrated to the target by certified
    brackets of all rounds together, under its own best reduction.

    Args:
        min_users: the fewest of them who will send, if some may not: privacy and errors are those
            of a round of that many users. By default all of them.
        participation: instead, the probability, in (0, 1], that each of them sends, independently
            and whatever the data are: only if attendance is secret. Errors are those of as few as
            send with all but 1e-4 of the probability.
        jobs: number of workers, see `shuffle_accountant.sweep`; `joblib.parallel_config` decides
            by default, which may name a cluster.

    Returns:
        The design; its ``rows`` are empty if no candidate meets the target with an error below 1.
    """
    question = Question(
        users=users,
        min_users=min_users,
        participation=participation,
        colluding=colluding,
        size=categories,
        target_epsilon=target_epsilon,
        delta=delta,
        rounds=rounds,
        tolerance=tolerance,
        of="categories",
    )
    return _design(question, frequency_candidates(), jobs)


def mean(
    *,
    users: int,
    min_users: int | None = None,
    participation: float | None = None,
    colluding: int = 0,
    dimension: int,
    target_epsilon: float,
    delta: float,
    rounds: int = 1,
    tolerance: float = 1e-3,
    gaussian_messages: bool = True,
    jobs: int | None = None,
) -> Design:
    """Calibrated mechanisms for estimating the mean of vectors in the unit ball of the 2-norm.

    Candidates: PrivUnit, both mechanisms of Duchi et al., sampled coordinates and Gaussian
    messages; the same randomizers without a shuffler; Gaussian noise, and Laplace noise of the
    2-norm (a density that falls like ``e^-|z|``), of a trusted curator.

    Args:
        min_users: the fewest of them who will send, if some may not: privacy and errors are those
            of a round of that many users. By default all of them.
        participation: instead, the probability, in (0, 1], that each of them sends, independently
            and whatever the data are: only if attendance is secret. Errors are those of as few as
            send with all but 1e-4 of the probability.
        gaussian_messages: whether to calibrate `GaussianVectors` too. Its adjacency is zero-out, as
            its row says: it hides less than the other rows do. Its brackets (null clones) take most
            of a second each, some five seconds in all, and are wide, which costs it half a percent
            of its noise.

    Returns:
        The design; its ``rows`` are empty if no candidate meets the target with an error below 1.
    """
    wanted = validate.flag(gaussian_messages=gaussian_messages)
    question = Question(
        users=users,
        min_users=min_users,
        participation=participation,
        colluding=colluding,
        size=dimension,
        target_epsilon=target_epsilon,
        delta=delta,
        rounds=rounds,
        tolerance=tolerance,
        of="dimension",
    )
    return _design(question, mean_candidates(question.size, gaussian_messages=wanted), jobs)


def _design(question: Question, candidates: Sequence[Candidate], jobs: int | None) -> Design:
    warn_if_delta_is_large(question.delta, question.users)
    records = sweep(partial(_row, question=question), {"candidate": candidates}, jobs=jobs)
    rows: dict[str, list[DesignRow]] = {"shuffle": [], "local": [], "central": []}
    excluded = []
    for candidate, record in zip(candidates, records, strict=True):
        if record.error is None and not _is_response(record.answer):
            rows[candidate.place].append(record.answer)
        elif record.error is not None:
            excluded.append(
                Excluded(name=candidate.name, place=candidate.place, reason=record.error)
            )
    shuffled, local, central = (
        tuple(sorted(found, key=lambda row: row.rmse)) for found in rows.values()
    )
    return Design(
        question=question,
        rows=shuffled,
        local=local,
        central=central,
        excluded=tuple(excluded),
    )


def _is_response(row: DesignRow) -> bool:
    """Whether the mechanism is k-ary randomized response under another name."""
    return isinstance(row.mechanism, SubsetSelection) and row.mechanism.size == 1


def _row(*, candidate: Candidate, question: Question) -> DesignRow:
    return candidate.row(question)
