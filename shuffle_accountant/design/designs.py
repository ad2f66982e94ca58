"""The questions that a design answers; candidates are calibrated independently of one another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from shuffle_accountant import validation as validate
from shuffle_accountant.bracket import warn_if_delta_is_large
from shuffle_accountant.design.answers import Design, DesignRow, Excluded
from shuffle_accountant.design.candidates import Candidate
from shuffle_accountant.design.histograms import frequency_candidates
from shuffle_accountant.design.question import Question
from shuffle_accountant.design.vectors import mean_candidates
from shuffle_accountant.randomizers.oracles import SubsetSelection
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
    exclude: Iterable[str] = (),
    most_bits: float | None = None,
    most_messages: float | None = None,
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
        exclude: names of mechanisms, as rows have them, that are not to be considered.
        most_bits: most bits that a user may send in a round, on average; by default any number.
        most_messages: most messages that a user may send in a round, on average.
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
    return _design(question, frequency_candidates(), exclude, most_bits, most_messages, jobs)


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
    exclude: Iterable[str] = (),
    most_bits: float | None = None,
    most_messages: float | None = None,
    jobs: int | None = None,
) -> Design:
    """Calibrated mechanisms for estimating the mean of vectors in the unit ball of the 2-norm.

    Candidates: PrivUnit, both mechanisms of Duchi et al., sampled coordinates and Gaussian
    messages; the same randomizers without a shuffler; Gaussian noise, and Laplace noise of the
    2-norm (a density that falls like ``e^-|z|``), of a trusted curator. All other arguments are
    those of `frequency`.

    Args:
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
    candidates = mean_candidates(question.size, gaussian_messages=wanted)
    return _design(question, candidates, exclude, most_bits, most_messages, jobs)


def _design(
    question: Question,
    every: Sequence[Candidate],
    exclude: Iterable[str],
    most_bits: float | None,
    most_messages: float | None,
    jobs: int | None,
) -> Design:
    limits = {}  # by the name of a row's field
    if most_bits is not None:
        limits["bits"] = validate.positive(most_bits=most_bits)
    if most_messages is not None:
        limits["messages"] = validate.positive(most_messages=most_messages)
    warn_if_delta_is_large(question.delta, question.users)
    names = sorted({one.name for one in every})
    unwanted = [validate.choice(names, exclude=name) for name in validate.items(exclude=exclude)]
    candidates = [one for one in every if one.name not in unwanted]
    records = sweep(partial(_row, question=question), {"candidate": candidates}, jobs=jobs)
    rows: dict[str, list[DesignRow]] = {"shuffle": [], "local": [], "central": []}
    excluded = []
    for candidate, record in zip(candidates, records, strict=True):
        row, reason = record.answer, record.error
        if reason is None and candidate.place != "central":
            reason = next(
                (
                    f"{name} per user must be at most {most:g}, got {getattr(row, name):g}"
                    for name, most in limits.items()
                    if getattr(row, name) > most
                ),
                None,
            )
        if reason is not None:
            excluded.append(Excluded(name=candidate.name, place=candidate.place, reason=reason))
        # subset selection of one category is k-ary randomized response under another name
        elif not (isinstance(row.mechanism, SubsetSelection) and row.mechanism.size == 1):
            rows[candidate.place].append(row)
    ordered = (tuple(sorted(found, key=lambda row: row.rmse)) for found in rows.values())
    shuffled, local, central = ordered
    return Design(
        question=question, rows=shuffled, local=local, central=central, excluded=tuple(excluded)
    )


def _row(*, candidate: Candidate, question: Question) -> DesignRow:
    return candidate.row(question)
