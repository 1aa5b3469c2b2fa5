"""unladen runs GGUF language models from Python, across CPU and GPUs of any vendor.

>>> from unladen import Model
>>> model = Model("tiny")
>>> model.generate("Once upon a time", temperature=0.0).text  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unladen.api import Model as Model
    from unladen.sample import SamplerChain as SamplerChain
    from unladen.sample import SamplingParams as SamplingParams
    from unladen.types import Completion as Completion

__version__ = "0.1.0"
__all__ = ["Completion", "Model", "SamplerChain", "SamplingParams", "__version__"]

# Loaded on first use: importing unladen costs next to nothing.
_HOMES = {"Model": "unladen.api", "SamplerChain": "unladen.sample",
          "SamplingParams": "unladen.sample", "Completion": "unladen.types"}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'unladen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
