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

from shuffle_accountant.bracket import __version__ as __version__
from shuffle_accountant.facades import lazy_attributes

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
    from shuffle_accountant.accountant import FourierAccountant as FourierAccountant
    from shuffle_accountant.accountant import delta as delta
    from shuffle_accountant.accountant import epsilon as epsilon
    from shuffle_accountant.adjacency import Adjacency as Adjacency
    from shuffle_accountant.bracket import Attained as Attained
    from shuffle_accountant.bracket import Bracket as Bracket
    from shuffle_accountant.bracket import CrossedEndsError as CrossedEndsError
    from shuffle_accountant.bracket import ErrorLedger as ErrorLedger
    from shuffle_accountant.bracket import FloorWarning as FloorWarning
    from shuffle_accountant.bracket import LooseBracketWarning as LooseBracketWarning
    from shuffle_accountant.bracket import PrivacyProfile as PrivacyProfile
    from shuffle_accountant.bracket import TradeOffCurve as TradeOffCurve
    from shuffle_accountant.bracket import WeakPrivacyWarning as WeakPrivacyWarning
    from shuffle_accountant.calibration.calibrate import max_eps0 as max_eps0
    from shuffle_accountant.calibration.calibrate import max_rounds as max_rounds
    from shuffle_accountant.calibration.calibrate import (
        min_noise_multiplier as min_noise_multiplier,
    )
    from shuffle_accountant.calibration.calibrate import min_users as min_users
    from shuffle_accountant.deployment.description import Deployment as Deployment
    from shuffle_accountant.randomizers.channel import (
        ApproximateRandomizer as ApproximateRandomizer,
    )
    from shuffle_accountant.randomizers.channel import DiscreteRandomizer as DiscreteRandomizer
    from shuffle_accountant.randomizers.channel import GeneralRandomizer as GeneralRandomizer
    from shuffle_accountant.randomizers.count_laws import AsymmetricGeometric as AsymmetricGeometric
    from shuffle_accountant.randomizers.count_laws import Binomial as Binomial
    from shuffle_accountant.randomizers.count_laws import DiscreteGaussian as DiscreteGaussian
    from shuffle_accountant.randomizers.count_laws import NegativeBinomial as NegativeBinomial
    from shuffle_accountant.randomizers.count_laws import Poisson as Poisson
    from shuffle_accountant.randomizers.noise import GaussianRandomizer as GaussianRandomizer
    from shuffle_accountant.randomizers.noise import GaussianVectors as GaussianVectors
    from shuffle_accountant.randomizers.noise import LaplaceRandomizer as LaplaceRandomizer
    from shuffle_accountant.randomizers.oracles import RAPPOR as RAPPOR
    from shuffle_accountant.randomizers.oracles import HadamardResponse as HadamardResponse
    from shuffle_accountant.randomizers.oracles import LocalHashing as LocalHashing
    from shuffle_accountant.randomizers.oracles import SubsetSelection as SubsetSelection
    from shuffle_accountant.randomizers.randomized_response import (
        BinaryRandomizedResponse as BinaryRandomizedResponse,
    )
    from shuffle_accountant.randomizers.randomized_response import (
        RandomizedResponse as RandomizedResponse,
    )
    from shuffle_accountant.reductions.base import DensitiesAmongDecoys as DensitiesAmongDecoys
    from shuffle_accountant.reductions.base import TargetAmongDecoys as TargetAmongDecoys
    from shuffle_accountant.reports import plot as plot
    from shuffle_accountant.reports.comparison import compare as compare
    from shuffle_accountant.reports.rows import Report as Report
    from shuffle_accountant.reports.rows import ReportRow as ReportRow
    from shuffle_accountant.reports.rows import report as report
    from shuffle_accountant.reports.statements import Statement as Statement
    from shuffle_accountant.reports.statements import statement as statement
    from shuffle_accountant.rounds.allocation import RandomAllocation as RandomAllocation
    from shuffle_accountant.rounds.attained import attained_epsilon as attained_epsilon
    from shuffle_accountant.rounds.batches import CyclicPoisson as CyclicPoisson
    from shuffle_accountant.rounds.batches import FixedSizeSampled as FixedSizeSampled
    from shuffle_accountant.rounds.batches import PoissonSampled as PoissonSampled
    from shuffle_accountant.rounds.batches import ShuffledBatches as ShuffledBatches
    from shuffle_accountant.rounds.matrix import MatrixMechanism as MatrixMechanism
    from shuffle_accountant.rounds.matrix import sqrt_coefficients as sqrt_coefficients
    from shuffle_accountant.rounds.mechanisms import GaussianMechanism as GaussianMechanism
    from shuffle_accountant.rounds.mechanisms import LaplaceMechanism as LaplaceMechanism
    from shuffle_accountant.rounds.mechanisms import PureMechanism as PureMechanism
    from shuffle_accountant.rounds.memoised import MemoisedRounds as MemoisedRounds
    from shuffle_accountant.rounds.messages import AugmentedShuffle as AugmentedShuffle
    from shuffle_accountant.rounds.messages import NoiseMessages as NoiseMessages
    from shuffle_accountant.rounds.pld import LossTable as LossTable
    from shuffle_accountant.rounds.pld import PldRound as PldRound
    from shuffle_accountant.rounds.protocol import Protocol as Protocol
    from shuffle_accountant.rounds.protocol import conditions as conditions
    from shuffle_accountant.rounds.protocol import register as register
    from shuffle_accountant.rounds.shuffle import Shuffler as Shuffler
    from shuffle_accountant.rounds.shuffle import ShuffleRound as ShuffleRound
    from shuffle_accountant.rounds.thresholds import SampleAndThreshold as SampleAndThreshold
    from shuffle_accountant.sweeping import SweepRecord as SweepRecord
    from shuffle_accountant.sweeping import sweep as sweep
    from shuffle_accountant.sweeping import sweep_records as sweep_records
    from shuffle_accountant.tuning.best_run import Fixed as Fixed
    from shuffle_accountant.tuning.best_run import Geometric as Geometric
    from shuffle_accountant.tuning.best_run import selection as selection

if not TYPE_CHECKING:
    _MODULES = "audit baselines certificates deployment design interop leakage order training"
    # everything is imported on first use, as the first answer of a process needs little of it
    _NAMES = {
        "accountant": "FourierAccountant delta epsilon",
        "adjacency": "Adjacency",
        "bracket": "Attained Bracket CrossedEndsError ErrorLedger FloorWarning "
        "LooseBracketWarning PrivacyProfile TradeOffCurve WeakPrivacyWarning",
        "calibration.calibrate": "max_eps0 max_rounds min_noise_multiplier min_users",
        "deployment.description": "Deployment",
        "randomizers.channel": "ApproximateRandomizer DiscreteRandomizer GeneralRandomizer",
        "randomizers.count_laws": "AsymmetricGeometric Binomial DiscreteGaussian "
        "NegativeBinomial Poisson",
        "randomizers.noise": "GaussianRandomizer GaussianVectors LaplaceRandomizer",
        "randomizers.oracles": "HadamardResponse LocalHashing RAPPOR SubsetSelection",
        "randomizers.randomized_response": "BinaryRandomizedResponse RandomizedResponse",
        "reductions.base": "DensitiesAmongDecoys TargetAmongDecoys",
        "reports.comparison": "compare",
        "reports.rows": "Report ReportRow report",
        "reports.statements": "Statement statement",
        "rounds.allocation": "RandomAllocation",
        "rounds.attained": "attained_epsilon",
        "rounds.batches": "CyclicPoisson FixedSizeSampled PoissonSampled ShuffledBatches",
        "rounds.matrix": "MatrixMechanism sqrt_coefficients",
        "rounds.mechanisms": "GaussianMechanism LaplaceMechanism PureMechanism",
        "rounds.memoised": "MemoisedRounds",
        "rounds.messages": "AugmentedShuffle NoiseMessages",
        "rounds.pld": "LossTable PldRound",
        "rounds.protocol": "Protocol conditions register",
        "rounds.shuffle": "ShuffleRound Shuffler",
        "rounds.thresholds": "SampleAndThreshold",
        "sweeping": "SweepRecord sweep sweep_records",
        "tuning.best_run": "Fixed Geometric selection",
    }
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        modules={one: one for one in _MODULES.split()} | {"plot": "reports.plot"},
        names={name: module for module, names in _NAMES.items() for name in names.split()},
        public=True,
    )
