"""Values that a shell completes: models, devices, formats and other values of options."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from typer.models import ArgumentInfo, OptionInfo

from unladen.cli import COMPLETE_VARIABLE
from unladen.hub import INCLUDED
from unladen.hub.stores import listed

Values = Callable[[str], list[str]]
"""A function from the text typed so far to its completions."""

_BREAKS: Final = (":", "=")
"""Characters at which bash splits words that are one word to this command line."""


def with_values(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with completion for those of its options and arguments that are in
    :data:`VALUES`."""
    signature = inspect.signature(command, eval_str=True)
    for name, parameter in signature.parameters.items():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if name in VALUES and isinstance(info, OptionInfo | ArgumentInfo):
                info.autocompletion = _completer(VALUES[name])

    @functools.wraps(command)
    def run(**options: Any) -> None:
        command(**options)

    run.__dict__["__signature__"] = signature
    run.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return run


def _completer(values: Values) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [value for value in values(incomplete) if value.startswith(incomplete)]
    return complete


def mend_bash(environment: MutableMapping[str, str]) -> str:
    """Join the words that bash has split at ``:`` and ``=`` in its completion variables, so that
    ``cpu:0`` is one word again. Returns the part of the last word before the split: bash has it
    already, so completions must leave it out."""
    words = environment.get("COMP_WORDS", "").split("\n")
    at = environment.get("COMP_CWORD", "")
    if (environment.get(COMPLETE_VARIABLE) != "complete_bash" or not at.isdecimal()
            or not 0 < int(at) < len(words)):
        return ""
    joined, known, goes_on = words[:1], "", False
    for word in words[1:int(at) + 1]:
        is_break = word in _BREAKS
        if is_break or goes_on:
            known = joined[-1] + (word if is_break else "")
            joined[-1] += word
        else:
            joined.append(word)
            known = ""
        goes_on = is_break
    environment["COMP_WORDS"] = "\n".join(joined)
    environment["COMP_CWORD"] = str(len(joined) - 1)
    return known


def models(incomplete: str) -> list[str]:
    """Files and folders that begin with ``incomplete``, models in the stores of this machine, and
    those that come with the package."""
    stored = {m.name for m in listed() if m.is_usable}
    return [*INCLUDED, *sorted(stored), *_files(incomplete)]


def _files(incomplete: str) -> list[str]:
    """GGUF files, and the folders beside them. Where there are only folders it returns none: the
    shell's own completion is better for these, since it continues inside them."""
    head, _, tail = incomplete.rpartition("/")
    lead = f"{head}/" if "/" in incomplete else ""
    try:
        there = sorted(Path(os.path.expanduser(lead) or ".").iterdir())
    except OSError:
        return []  # the folder doesn't exist or can't be read
    fitting = [p for p in there if p.name.startswith(tail) and not p.name.startswith(".")]
    files = [f"{lead}{p.name}" for p in fitting if p.suffix.lower() == ".gguf"]
    return files + [f"{lead}{p.name}/" for p in fitting if files and p.is_dir()]


def _listed(values: Callable[[], Iterable[str]], comma: str = ",") -> Values:
    """Completes a list of ``values`` with ``comma`` between them, each at most once."""
    def complete(incomplete: str) -> list[str]:
        before, sign, _ = incomplete.rpartition(comma)
        taken = set(before.split(comma))
        return [f"{before}{sign}{value}" for value in values() if value not in taken]
    return complete


def _one(values: Callable[[], Iterable[str]]) -> Values:
    return lambda incomplete: list(values())


def _after(sign: str, values: Callable[[], Iterable[str]]) -> Values:
    """Completes one of ``values`` after any text and ``sign``."""
    def complete(incomplete: str) -> list[str]:
        before, found, _ = incomplete.rpartition(sign)
        return [f"{before}{sign}{value}" for value in values()] if found else []
    return complete


def devices() -> list[str]:
    """Devices that can be named."""
    from unladen.backends import all_devices
    return [d.name for d in all_devices()] + ["reference:0"]


def kv_types() -> list[str]:
    """Types of the KV cache."""
    from unladen.assembly.setup import KV_TYPES
    return list(KV_TYPES)


def _split_modes() -> list[str]:
    from unladen.schedule.place import SPLIT_MODES
    return list(SPLIT_MODES)


def _orders() -> list[str]:
    from unladen.schedule.place import OFFLOAD_ORDERS
    return list(OFFLOAD_ORDERS)


def _strategies() -> list[str]:
    from unladen.backends.cpu.numa import STRATEGIES
    return list(STRATEGIES)


def mixes() -> list[str]:
    """The types that a model can be quantized to."""
    from unladen.quantizing.mixes import ALIASES, MIXES, WRITABLE
    return sorted({*MIXES, *ALIASES, *WRITABLE})


def _formats() -> list[str]:
    from unladen.quantizing.mixes import WRITABLE
    return list(WRITABLE)


def _steps() -> list[str]:
    from unladen.sample.params import ORDER
    return list(ORDER)


def _rungs() -> list[str]:
    from unladen.assembly.ladder import RUNGS
    fixed = [rung for rung in RUNGS if not rung.endswith("TYPE")]
    return [*fixed, *(f"kv:{kv_type}" for kv_type in kv_types())]


VALUES: Final[Mapping[str, Values]] = MappingProxyType({
    "model": models, "source": models,
    "devices": _listed(devices),
    "embed_device": _one(devices), "head_device": _one(devices),
    "override_tensor": _after("=", devices),
    "n_gpu_layers": _one(lambda: ("auto", "all")),
    "split_mode": _one(_split_modes), "offload_order": _one(_orders), "numa": _one(_strategies),
    "stream_weights": _one(lambda: ("auto", "on", "off")),
    "expert_cache": _one(lambda: ("auto",)), "kv_type": _listed(kv_types),
    "on_oom": _listed(_rungs), "order": _listed(_steps, ";"),
    "mirostat": _one(lambda: ("0", "1", "2")), "type": _one(mixes),
    "output_tensor_type": _one(_formats), "token_embedding_type": _one(_formats),
    "tensor_type": _after("=", _formats)})
"""The completions, by the name of a command's parameter."""
