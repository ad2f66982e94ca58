"""Certified privacy accounting for the shuffle model of differential privacy.

    >>> import shuffle_accountant as sa
    >>> survey = sa.ShuffleRound(sa.GeneralRandomizer(eps0=4.0), users=10_000)
    >>> sa.epsilon(survey, delta=1e-6, rounds=4)
    Bracket(0.853864 <= x <= 0.853881, reduction='clones')

All public names, each with a help of its own, such as `help(sa.ShuffleRound)`:

Questions
    epsilon              bracket of epsilon of rounds, at a delta
    delta                bracket of delta of rounds, at an epsilon
    attained_epsilon     lower bound of the epsilon that rounds really lose
    conditions           assumptions under which answers about rounds hold
    FourierAccountant    records rounds, and answers when asked
    report               every measure of leakage that applies to a protocol
    compare              epsilon by this package and by every published bound
    statement            a paragraph for a privacy notice
    sweep                answers at every point of a grid of parameters
    sweep_records        the same, each as soon as it is there

From a target to parameters
    max_eps0             the largest eps0 that meets a target
    min_users            the fewest users
    max_rounds           the most rounds
    min_noise_multiplier the least noise of a run of DP-SGD
    selection            the best of several runs: what tuning costs
    design               module: mechanisms that meet a target, and their errors
    Deployment           what devices, shuffler and analysts agree on, as one file

Rounds
    ShuffleRound         every user sends one message through a shuffler
    MemoisedRounds       rounds that send noisy copies of one permanent answer
    NoiseMessages        true values among dummy messages that the users add
    AugmentedShuffle     the shuffler drops some values and adds dummies
    RandomAllocation     an epoch: every record is dealt to one step at random
    ShuffledBatches      an epoch over shuffled records in batches of one size
    PoissonSampled       a step that every record takes part in at random
    CyclicPoisson        sampled steps that go through a fixed partition in turn
    MatrixMechanism      a run with correlated noise, by bands or a tree
    sqrt_coefficients    the usual encoder of prefix sums
    FixedSizeSampled     a step whose batch is a random subset of a fixed size
    GaussianMechanism, LaplaceMechanism, PureMechanism
                         one step with that noise, or with a known epsilon
    SampleAndThreshold   sampled reports of which rare values are suppressed
    Shuffler             what an imperfect shuffler hides
    PldRound             any mechanism with a known privacy loss distribution
    Protocol             rounds with their counts
    Adjacency            how two neighbouring datasets differ

Randomizers
    GeneralRandomizer    any randomizer with this eps0
    ApproximateRandomizer
                         any whose messages are (eps0, delta0)-close to one law
    DiscreteRandomizer   a channel matrix
    RandomizedResponse, BinaryRandomizedResponse, RAPPOR, SubsetSelection,
    LocalHashing, HadamardResponse
                         one of k categories
    LaplaceRandomizer, GaussianRandomizer, GaussianVectors
                         numbers and vectors plus noise
    register             makes a class of one's own known by its name

Numbers of dummy messages, or of users
    NegativeBinomial, Poisson, Binomial, AsymmetricGeometric, DiscreteGaussian
Numbers of runs
    Geometric, Fixed

Answers
    Bracket              two numbers that enclose the exact one; a float
    ErrorLedger          where the width of a bracket comes from
    Attained             a lower bound by concrete datasets
    PrivacyProfile       the curve delta(epsilon)
    TradeOffCurve        false negative rate by false positive rate
    Report, ReportRow, Statement, SweepRecord
                         what report, statement and sweep return
    LossTable, TargetAmongDecoys, DensitiesAmongDecoys
                         what reductions make of rounds
    LooseBracketWarning, FloorWarning, WeakPrivacyWarning
                         a wide bracket, an infinite epsilon, a weak promise
    CrossedEndsError     an error of this package, to be reported

Modules
    baselines            published bounds, exactly as published
    certificates         claims with a proof that anyone can check
    deployment           programs for devices, and a reference server
    interop              both ways to dp_accounting
    audit                checks of running code against its claim
    leakage              re-identification, mutual information, information flow
    order                shuffling that keeps some of the order of the data
    plot                 pictures
    training             shuffled learning, with a ledger and engines for Opacus

An argument of the wrong type raises `TypeError`, a value outside its range `ValueError`, in one
line that names the argument, its value and the range. Docstrings list other errors only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.accountant import FourierAccountant, delta, epsilon
from shuffle_accountant.adjacency import Adjacency
from shuffle_accountant.bracket import (
    Attained,
    Bracket,
    CrossedEndsError,
    ErrorLedger,
    FloorWarning,
    LooseBracketWarning,
    PrivacyProfile,
    TradeOffCurve,
    WeakPrivacyWarning,
)
from shuffle_accountant.bracket import __version__ as __version__
from shuffle_accountant.facades import explain_calls, lazy_attributes
from shuffle_accountant.randomizers.channel import (
    ApproximateRandomizer,
    DiscreteRandomizer,
    GeneralRandomizer,
)
from shuffle_accountant.randomizers.count_laws import (
    AsymmetricGeometric,
    Binomial,
    DiscreteGaussian,
    NegativeBinomial,
    Poisson,
)
from shuffle_accountant.randomizers.noise import (
    GaussianRandomizer,
    GaussianVectors,
    LaplaceRandomizer,
)
from shuffle_accountant.randomizers.oracles import (
    RAPPOR,
    HadamardResponse,
    LocalHashing,
    SubsetSelection,
)
from shuffle_accountant.randomizers.randomized_response import (
    BinaryRandomizedResponse,
    RandomizedResponse,
)
from shuffle_accountant.reductions.base import DensitiesAmongDecoys, TargetAmongDecoys
from shuffle_accountant.rounds.pld import PldTable as LossTable
from shuffle_accountant.rounds.protocol import Protocol, conditions, register
from shuffle_accountant.rounds.shuffle import ShuffleRound
from shuffle_accountant.rounds.shuffler import Shuffler

if TYPE_CHECKING:
    from shuffle_accountant import audit as audit
    from shuffle_accountant import baselines as baselines
    from shuffle_accountant import certificates as certificates
    from shuffle_accountant import deployment as deployment
    from shuffle_accountant import design as design
    from shuffle_accountant import interop as interop
    from shuffle_accountant import leakage as leakage
    from shuffle_accountant import order as order
    from shuffle_accountant import training as training
    from shuffle_accountant.calibration.calibrate import (
        max_eps0,
        max_rounds,
        min_noise_multiplier,
        min_users,
    )
    from shuffle_accountant.deployment.description import Deployment
    from shuffle_accountant.reports import plot as plot
    from shuffle_accountant.reports.comparison import compare
    from shuffle_accountant.reports.rows import Report, ReportRow, report
    from shuffle_accountant.reports.statements import Statement, statement
    from shuffle_accountant.rounds.allocation import RandomAllocation
    from shuffle_accountant.rounds.attained import attained_epsilon
    from shuffle_accountant.rounds.batches import (
        CyclicPoisson,
        FixedSizeSampled,
        PoissonSampled,
        ShuffledBatches,
    )
    from shuffle_accountant.rounds.matrix import MatrixMechanism, sqrt_coefficients
    from shuffle_accountant.rounds.mechanisms import (
        GaussianMechanism,
        LaplaceMechanism,
        PureMechanism,
    )
    from shuffle_accountant.rounds.memoised import MemoisedRounds
    from shuffle_accountant.rounds.messages import AugmentedShuffle, NoiseMessages
    from shuffle_accountant.rounds.pld import PldRound
    from shuffle_accountant.rounds.thresholds import SampleAndThreshold
    from shuffle_accountant.sweeping import SweepRecord, sweep, sweep_records
    from shuffle_accountant.tuning.best_run import Fixed, Geometric, selection

__all__ = [
    "RAPPOR",
    "Adjacency",
    "ApproximateRandomizer",
    "AsymmetricGeometric",
    "Attained",
    "AugmentedShuffle",
    "BinaryRandomizedResponse",
    "Binomial",
    "Bracket",
    "CrossedEndsError",
    "CyclicPoisson",
    "DensitiesAmongDecoys",
    "Deployment",
    "DiscreteGaussian",
    "DiscreteRandomizer",
    "ErrorLedger",
    "Fixed",
    "FixedSizeSampled",
    "FloorWarning",
    "FourierAccountant",
    "GaussianMechanism",
    "GaussianRandomizer",
    "GaussianVectors",
    "GeneralRandomizer",
    "Geometric",
    "HadamardResponse",
    "LaplaceMechanism",
    "LaplaceRandomizer",
    "LocalHashing",
    "LooseBracketWarning",
    "LossTable",
    "MatrixMechanism",
    "MemoisedRounds",
    "NegativeBinomial",
    "NoiseMessages",
    "PldRound",
    "Poisson",
    "PoissonSampled",
    "PrivacyProfile",
    "Protocol",
    "PureMechanism",
    "RandomAllocation",
    "RandomizedResponse",
    "Report",
    "ReportRow",
    "SampleAndThreshold",
    "ShuffleRound",
    "ShuffledBatches",
    "Shuffler",
    "Statement",
    "SubsetSelection",
    "SweepRecord",
    "TargetAmongDecoys",
    "TradeOffCurve",
    "WeakPrivacyWarning",
    "attained_epsilon",
    "audit",
    "baselines",
    "certificates",
    "compare",
    "conditions",
    "delta",
    "deployment",
    "design",
    "epsilon",
    "interop",
    "leakage",
    "max_eps0",
    "max_rounds",
    "min_noise_multiplier",
    "min_users",
    "order",
    "plot",
    "register",
    "report",
    "selection",
    "sqrt_coefficients",
    "statement",
    "sweep",
    "sweep_records",
    "training",
]

# Modules that are not needed for accounting are imported on first use.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        modules={
            **{one: one for one in ("audit", "baselines", "certificates", "deployment", "design")},
            **{one: one for one in ("interop", "leakage", "order", "training")},
            "plot": "reports.plot",
        },
        # what the first answer of a process does not need
        names={
            name: module
            for module, names in {
                "calibration.calibrate": (
                    "max_eps0",
                    "max_rounds",
                    "min_noise_multiplier",
                    "min_users",
                ),
                "deployment.description": ("Deployment",),
                "reports.comparison": ("compare",),
                "reports.rows": ("Report", "ReportRow", "report"),
                "reports.statements": ("Statement", "statement"),
                "rounds.messages": ("AugmentedShuffle", "NoiseMessages"),
                "rounds.allocation": ("RandomAllocation",),
                "rounds.attained": ("attained_epsilon",),
                "rounds.batches": (
                    "CyclicPoisson",
                    "FixedSizeSampled",
                    "PoissonSampled",
                    "ShuffledBatches",
                ),
                "rounds.matrix": ("MatrixMechanism", "sqrt_coefficients"),
                "rounds.mechanisms": ("GaussianMechanism", "LaplaceMechanism", "PureMechanism"),
                "rounds.memoised": ("MemoisedRounds",),
                "rounds.pld": ("PldRound",),
                "rounds.thresholds": ("SampleAndThreshold",),
                "sweeping": ("SweepRecord", "sweep", "sweep_records"),
                "tuning.best_run": ("Fixed", "Geometric", "selection"),
            }.items()
            for name in names
        },
        public=__all__,
    )
    explain_calls(__name__)
    del __all__  # lazy: pydoc would print every class that it names, thousands of lines
