"""What quantitative information flow refuses, in one line that names the argument."""

from __future__ import annotations

import numpy as np
import pytest

from shuffle_accountant.leakage import qif

NAN, INF = float("nan"), float("inf")
BINARY = [[0.75, 0.25], [0.25, 0.75]]
C = qif.Channel(BINARY)


def refused(call, *, error, names):
    with pytest.raises(error) as caught:
        call()
    text = str(caught.value)
    assert names in text
    assert "\n" not in text


OUT_OF_RANGE = {
    "users 0": (lambda: qif.posterior_vulnerability_shuffle(users=0, categories=2), "users"),
    "users huge": (
        lambda: qif.posterior_vulnerability_shuffle(users=2**53 + 1, categories=2),
        "users",
    ),
    "categories 1": (
        lambda: qif.posterior_vulnerability_shuffle(users=1, categories=1),
        "categories",
    ),
    "p low": (
        lambda: qif.posterior_vulnerability_krr_shuffle(users=5, categories=4, p=0.24),
        "p must be a number in [1/4, 1], got 0.24",
    ),
    "p high": (lambda: qif.posterior_vulnerability_krr_shuffle(users=5, categories=4, p=1.1), "p"),
    "p nan": (lambda: qif.posterior_vulnerability_krr_shuffle(users=5, categories=4, p=NAN), "p"),
    "p not low": (
        lambda: qif.posterior_vulnerability_krr_shuffle_low(users=5, categories=4, p=0.3),
        "p must be a number in [0, 1/4], got 0.3",
    ),
    "bit p low": (lambda: qif.all_but_one_vulnerability(users=5, p=0.4, known=0), "p must be"),
    "known low": (lambda: qif.all_but_one_vulnerability(users=5, p=0.6, known=-1), "known"),
    "known high": (
        lambda: qif.all_but_one_vulnerability(users=5, p=0.6, known=5),
        "known must be an integer >= 0 and <= 4, got 5",
    ),
    "known count": (lambda: qif.all_but_one_vulnerability_of(BINARY, known=[1]), "known"),
    "known negative": (lambda: qif.all_but_one_vulnerability_of(BINARY, known=[1, -1]), "known"),
    "not a law": (lambda: qif.posterior_vulnerability_shuffle_of([0.5, 0.6], users=3), "theta"),
    "law nan": (lambda: qif.expected_maximum_load_of([0.5, NAN], users=3), "theta"),
    "empty law": (lambda: qif.expected_minimum_load_of([], users=3), "theta"),
    "near ties": (
        lambda: qif.expected_maximum_load_of([0.3, 0.3 - 1e-9, 0.2 + 1e-9, 0.2], users=10**12),
        "users must be <= 10000000000",
    ),
    "rows": (lambda: qif.Channel([[0.5, 0.6], [0.5, 0.5]]), "matrix"),
    "negative": (lambda: qif.Channel([[1.5, -0.5]]), "matrix"),
    "infinite": (lambda: qif.Channel([[INF, 0.0]]), "matrix"),
    "one dimension": (lambda: qif.Channel([1.0]), "matrix"),
    "ragged": (lambda: qif.Channel([[1.0], [0.5, 0.5]]), "matrix"),
    "names": (lambda: qif.Channel(BINARY, inputs="aa"), "inputs"),
    "more names": (lambda: qif.Channel(BINARY, outputs="abc"), "outputs"),
    "no such name": (lambda: C.probability(2, given=0), "output"),
    "prior length": (lambda: C.posterior_vulnerability([1.0]), "prior"),
    "prior sum": (lambda: C.prior_vulnerability([0.9, 0.2]), "prior"),
    "gain shape": (lambda: C.posterior_vulnerability(gain=[[1.0, 0.0, 0.0]]), "gain"),
    "gain negative": (lambda: C.posterior_vulnerability(gain=[[1.0, -1.0]]), "gain"),
    "gain infinite": (lambda: C.posterior_vulnerability(gain=[[1.0, INF]]), "gain"),
    "nothing to gain": (lambda: C.multiplicative_leakage(gain=[[0.0, 0.0]]), "gain"),
    "cascade": (lambda: C @ qif.Channel([[1.0]]), "cascade"),
    "cascade names": (lambda: C @ qif.Channel(BINARY, inputs="ab"), "cascade"),
    "other inputs": (lambda: C.is_refined_by(qif.Channel([[1.0]])), "other"),
    "other names": (lambda: C.is_equivalent_to(qif.Channel(BINARY, inputs="ab")), "other"),
    "target": (lambda: qif.single_target_gain(users=2, categories=2, target=2), "target"),
    "eps0": (lambda: qif.keep_probability(eps0=-1.0, categories=2), "eps0"),
    "few users": (
        lambda: qif.printed_vulnerability_shuffle(users=3, categories=5),
        "users must be >= k ln k",
    ),
    "printed p": (
        lambda: qif.printed_vulnerability_krr_shuffle(users=30, categories=5, p=0.1),
        "p must be",
    ),
    "asymptotic p": (
        lambda: qif.asymptotic_all_but_one_vulnerability(users=30, p=0.3),
        "p must be",
    ),
    "partitions": (
        lambda: qif.partition_vulnerability_shuffle(users=1000, categories=10),
        "users must have at most",
    ),
    "partitions of two": (
        lambda: qif.brown_number(users=10**12, categories=2),
        "users must have at most",
    ),
}


@pytest.mark.parametrize("case", OUT_OF_RANGE)
def test_out_of_range(case):
    call, names = OUT_OF_RANGE[case]
    refused(call, error=ValueError, names=names)


TOO_LARGE = {
    "datasets": lambda: qif.datasets(10**9, 7),
    "N": lambda: qif.krr_channel(users=30, categories=4, p=0.5),
    "N of nearly one value": lambda: qif.local_channel(np.ones((2, 1)), users=10**12),
    "S": lambda: qif.shuffle_channel(users=13, categories=2),
    "Sr": lambda: qif.reduced_shuffle_channel(users=22, categories=2),
    "Nr": lambda: qif.reduced_krr_channel(users=10**4, categories=2, p=0.5),
    "Nr, digits": lambda: qif.reduced_krr_channel(users=10**5000, categories=1000, p=0.5),
    "one user": lambda: qif.krr(categories=10**6, p=0.5),
    "gain": lambda: qif.identity_gain(10**6),
    "histograms": lambda: qif.posterior_vulnerability_local_shuffle(np.eye(5), users=10**4),
    "all but one": lambda: qif.all_but_one_vulnerability_of(np.eye(4), known=[300, 0, 0, 0]),
    "all but one, slow": lambda: qif.all_but_one_vulnerability_of(BINARY, known=[10**6, 0]),
    "Nr, slow": lambda: qif.reduced_krr_channel(users=4000, categories=2, p=0.5),
    "one value": lambda: qif.local_channel([[1.0]], users=10**12),
    "refinement": lambda: qif.krr_channel(users=5, categories=4, p=0.9).is_refined_by(
        qif.krr_channel(users=5, categories=4, p=0.8)
    ),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_too_large(case):
    refused(TOO_LARGE[case], error=ValueError, names="at most")


WRONG_TYPE = {
    "float users": (
        lambda: qif.posterior_vulnerability_shuffle(users=1e4 + 0.5, categories=2),
        "users",
    ),
    "text p": (
        lambda: qif.posterior_vulnerability_krr_shuffle(users=2, categories=2, p="1"),
        "p",
    ),
    "float known": (lambda: qif.all_but_one_vulnerability(users=5, p=0.6, known=1.5), "known"),
    "text matrix": (lambda: qif.Channel([["a", "b"]]), "matrix"),
    "text law": (lambda: qif.expected_maximum_load_of(["a"], users=1), "theta"),
    "text gain": (lambda: C.posterior_vulnerability(gain=[["a", "b"]]), "gain"),
    "not a channel": (lambda: C.is_refined_by(BINARY), "other"),
    "matrix product": (lambda: C @ BINARY, "Channel"),
}


@pytest.mark.parametrize("case", WRONG_TYPE)
def test_wrong_type(case):
    call, names = WRONG_TYPE[case]
    refused(call, error=TypeError, names=names)
