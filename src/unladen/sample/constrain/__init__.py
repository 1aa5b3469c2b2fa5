"""Constraints: which tokens may come next in a sequence, as bit masks, token by token."""

from __future__ import annotations

from unladen.sample.constrain.base import Constrains, Constraint, Make, check_constraint, mask_of

__all__ = ["Constrains", "Constraint", "Make", "check_constraint", "mask_of"]
