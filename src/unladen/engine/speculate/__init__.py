"""Tokens guessed ahead and computed together: when that pays, and where the guesses come from."""

from unladen.engine.speculate.costs import StepCosts
from unladen.engine.speculate.ngram import Speculator

__all__ = ["Speculator", "StepCosts"]
