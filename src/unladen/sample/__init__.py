"""Chooses tokens from logits: a chain of steps, one file each, found by scanning this folder."""

from __future__ import annotations

from unladen.sample.base import BadLogits, Candidates, State, Step
from unladen.sample.chain import SamplerChain, registry
from unladen.sample.constrain import Constrains, Constraint, mask_of
from unladen.sample.logit_bias import LogitBias
from unladen.sample.params import SamplingParams, defaults
from unladen.sample.sampler import Sampler, logprobs, sample_rows

__all__ = ["BadLogits", "Candidates", "Constrains", "Constraint", "LogitBias", "Sampler",
           "SamplerChain", "SamplingParams", "State", "Step", "defaults", "logprobs", "mask_of",
           "registry", "sample_rows"]
