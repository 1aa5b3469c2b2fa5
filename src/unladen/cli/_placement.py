"""The options that say where a model runs; every command that computes has them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from unladen.cli._extend import Parameters, extended, with_options
from unladen.cli._progress import loading_line
from unladen.errors import InvalidArgument
from unladen.parameters.model import MODEL

NAMES = ("devices", "n_gpu_layers", "split_mode", "tensor_split", "main_gpu", "offload_order",
         "override_tensor", "cpu_moe", "n_cpu_moe", "kv_offload", "embed_device", "head_device",
         "expert_split", "expert_cache", "stream_weights", "strict", "use_mmap", "use_mlock",
         "packed_cache", "numa")
"""The parameters of a model that these options set, in the order of the help."""


def placeable(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the options of :func:`placement` added to its command line. It gets their
    values as one parameter ``placement``."""
    return extended(command, placement)


def _devices(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _stream_weights(text: str) -> bool | Literal["auto"]:
    meanings: dict[str, bool | Literal["auto"]] = {"auto": "auto", "on": True, "off": False}
    if text not in meanings:
        raise InvalidArgument(f"--stream-weights must be {', '.join(meanings)}, got {text!r}",
                              hint="for example --stream-weights off")
    return meanings[text]


def _expert_cache(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"--expert-cache must be auto or a number, got {text!r}",
                              hint="for example --expert-cache 16") from None


def _gpu_layers(text: str) -> int | Literal["auto", "all"]:
    if text == "auto":
        return "auto"
    if text == "all":
        return "all"
    try:
        return int(text)
    except ValueError:
        raise InvalidArgument(f"--n-gpu-layers must be auto, all or a number, got {text!r}",
                              hint="for example --n-gpu-layers 20") from None


def _tensor_shares(text: str) -> list[float]:
    return _shares(text, "--tensor-split")


def _expert_shares(text: str) -> list[float]:
    return _shares(text, "--expert-split")


def _shares(text: str, option: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgument(f"{option} must be a list of numbers, got {text!r}",
                              hint=f"for example {option} 0.6,0.4") from None


def _overrides(texts: list[str]) -> Mapping[str, str]:
    result = {}
    for text in (part for each in texts for part in _pairs(each)):
        pattern, equals, device = text.rpartition("=")
        if not equals or not pattern or not device:
            raise InvalidArgument(f"--override-tensor must be REGEX=DEVICE, got {text!r}",
                                  hint="for example --override-tensor 'ffn_.*=cpu'")
        result[pattern] = device
    return result


def _pairs(text: str) -> list[str]:
    """Splits REGEX=DEVICE pairs at commas, as llama.cpp does. An expression may contain commas."""
    parts = text.split(",")
    return parts if all(re.fullmatch(r".+=[\w:]+", part) for part in parts) else [text]


def _with_progress(chosen: Callable[..., Parameters]) -> Callable[..., Parameters]:
    @functools.wraps(chosen)
    def run(**options: Any) -> Parameters:
        return {**chosen(**options), "progress": loading_line()}
    return run


placement = _with_progress(with_options(
    "placement", {name: MODEL.parameters[name] for name in NAMES},
    {"devices": _devices, "n_gpu_layers": _gpu_layers, "tensor_split": _tensor_shares,
     "override_tensor": _overrides, "expert_split": _expert_shares,
     "expert_cache": _expert_cache, "stream_weights": _stream_weights},
    many=frozenset(["override_tensor"])))
"""The options as parameters of a model; raises :class:`InvalidArgument`."""
