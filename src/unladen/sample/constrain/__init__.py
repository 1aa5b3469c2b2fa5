"""Constraints: for each token of a sequence, a bit mask of the tokens that may come next."""

from __future__ import annotations

from unladen.sample.constrain.base import Constrains, Constraint, Make, check_constraint, mask_of

__all__ = ["Constrains", "Constraint", "Make", "check_constraint", "mask_of"]
