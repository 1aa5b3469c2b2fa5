"""The options that say how a model is loaded, other than where it runs. One that isn't given has
the value that belongs to the model's name, else the default."""

from __future__ import annotations

from collections.abc import Callable

from unladen.cli._extend import extended, with_options
from unladen.parameters.model import MODEL

ANSWERING = ("context_size", "batch_size", "n_threads", "n_threads_batch", "kv_type", "on_oom",
             "tokenizer", "speculate", "n_draft", "deterministic", "check_tensors")
"""Those of a model that answers one caller."""
SERVING = ("context_size", "cache_tokens", "batch_size", "n_threads", "n_threads_batch", "kv_type",
           "speculate", "deterministic", "on_oom")
"""Those of a model that a server has."""


def loadable(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A decorator of commands: the options of the parameters ``names`` of a model are added, and
    the command gets the values of those that are given as one parameter, ``loading``."""
    loading = with_options("loading", {name: MODEL.parameters[name] for name in names},
                           {"kv_type": kv_types, "on_oom": _rungs})
    return lambda command: extended(command, loading)


def kv_types(text: str) -> str | tuple[str, str]:
    """The cache's type for keys and values, or a pair of types."""
    k_type, comma, v_type = text.partition(",")
    return (k_type, v_type) if comma else text


def _rungs(text: str) -> list[str]:
    return [rung for rung in text.split(",") if rung]
