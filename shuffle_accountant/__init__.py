"""Certified privacy accounting for the shuffle model of differential privacy."""

from shuffle_accountant.accountant import FourierAccountant, delta, epsilon
from shuffle_accountant.bracket import Bracket, ErrorLedger, LooseBracketWarning, PrivacyProfile
from shuffle_accountant.decoys import TargetAmongDecoys
from shuffle_accountant.randomizers.general import GeneralRandomizer
from shuffle_accountant.rounds import ShuffleRound

__version__ = "0.1.0"

__all__ = [
    "Bracket",
    "ErrorLedger",
    "FourierAccountant",
    "GeneralRandomizer",
    "LooseBracketWarning",
    "PrivacyProfile",
    "ShuffleRound",
    "TargetAmongDecoys",
    "delta",
    "epsilon",
]
