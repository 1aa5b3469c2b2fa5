"""unladen runs GGUF language models from Python, across CPU and GPUs of any vendor.

>>> from unladen import Model
>>> model = Model("tiny")
>>> model.generate("Once upon a time", temperature=0.0).text  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unladen import backends as backends
    from unladen import gpu as gpu
    from unladen.api import Model as Model
    from unladen.api import plan as plan
    from unladen.backends import all_devices as devices
    from unladen.quantizing import quantize as quantize
    from unladen.sample import SamplerChain as SamplerChain
    from unladen.sample import SamplingParams as SamplingParams
    from unladen.sample.constrain.form import grammar as grammar
    from unladen.sample.constrain.form import json_schema as json_schema
    from unladen.sample.constrain.form import lark as lark
    from unladen.sample.constrain.form import regex as regex
    from unladen.types import Completion as Completion

__version__ = "0.1.0"
__all__ = ["Completion", "Model", "SamplerChain", "SamplingParams", "__version__", "backends",
           "devices", "gpu", "grammar", "json_schema", "lark", "plan", "quantize", "regex"]

# Modules of public names, imported on first use so that importing unladen takes no time.
_HOMES = {"Model": "unladen.api:Model", "SamplerChain": "unladen.sample:SamplerChain",
          "SamplingParams": "unladen.sample:SamplingParams",
          "Completion": "unladen.types:Completion", "devices": "unladen.backends:all_devices",
          "backends": "unladen.backends", "gpu": "unladen.gpu",
          "grammar": "unladen.sample.constrain.form:grammar",
          "json_schema": "unladen.sample.constrain.form:json_schema",
          "lark": "unladen.sample.constrain.form:lark",
          "regex": "unladen.sample.constrain.form:regex",
          "plan": "unladen.api:plan", "quantize": "unladen.quantizing:quantize"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'unladen' has no attribute {name!r}")
    module, _, inner = _HOMES[name].partition(":")
    home = importlib.import_module(module)
    return getattr(home, inner) if inner else home


def __dir__() -> list[str]:
    return sorted(__all__)
