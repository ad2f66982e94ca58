"""Data and model of the demonstrations of training: scikit-learn's digits, logistic regression."""

from __future__ import annotations

from shuffle_accountant.training.experiments.digits import Digits, Epoch, load
from shuffle_accountant.training.experiments.logistic import accuracy, per_user_gradients, train

__all__ = ["Digits", "Epoch", "accuracy", "load", "per_user_gradients", "train"]
