"""The type of the value of each instruction and each parameter of a Modelfile."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

Number: TypeAlias = int | float | bool
Typed: TypeAlias = Number | str

INT64: Final = 1 << 63
"""Whole numbers must lie within -INT64 and INT64 - 1."""
LARGEST_FLOAT: Final = 3.4028235677973366e38
"""The first number that is too large for a parameter of single precision."""
_BOOLEANS: Final[Mapping[str, bool]] = MappingProxyType({
    **dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True),
    **dict.fromkeys(("0", "f", "F", "false", "False", "FALSE"), False)})
_VERSION: Final = re.compile(
    r"v?(?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*)){0,2}(?:-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?",
    re.ASCII)
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


class Unfit(ValueError):
    """A value that an instruction doesn't take. The text says what must hold."""


def whole(text: str) -> int:
    """``text`` as a whole number of 64 bits."""
    if not re.fullmatch(r"[+-]?\d{1,20}", text, re.ASCII) or not -INT64 <= int(text) < INT64:
        raise Unfit("must be a whole number")
    return int(text)


def real(text: str) -> float:
    """``text`` as a number."""
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text, re.ASCII):
        raise Unfit("must be a number")
    value = float(text)
    if not math.isfinite(value) or abs(value) >= LARGEST_FLOAT:
        raise Unfit("must be a number of single precision")
    return value


def boolean(text: str) -> bool:
    """``text`` as true or false."""
    if text not in _BOOLEANS:
        raise Unfit("must be true or false")
    return _BOOLEANS[text]


def anything(text: str) -> str:
    """``text`` as it is."""
    return text


def filled(text: str) -> str:
    """``text``, which may not be empty."""
    if not text.strip() or "\0" in text:
        raise Unfit("must not be empty")
    return text


def version(text: str) -> str:
    """``text`` as a version such as 0.14.0."""
    if not _VERSION.fullmatch(text):
        raise Unfit("must be a version such as 0.14.0")
    return text


def digest(text: str) -> str:
    """``text`` as a digest."""
    if not _DIGEST.fullmatch(text):
        raise Unfit("must be sha256: and 64 lower-case hexadecimal digits")
    return text


Read: TypeAlias = Callable[[str], Typed]
"""Turns an instruction's text into its value, or raises :class:`Unfit`."""

PARAMETERS: Final[Mapping[str, Read]] = MappingProxyType({
    **dict.fromkeys(("num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread",
                     "draft_num_predict", "num_keep", "seed", "num_predict", "top_k",
                     "repeat_last_n"), whole),
    **dict.fromkeys(("top_p", "min_p", "typical_p", "temperature", "repeat_penalty",
                     "presence_penalty", "frequency_penalty"), real),
    "use_mmap": boolean, "stop": anything})
"""The type of each parameter of PARAMETER, by name. ``stop`` may be given several times."""
WITHOUT_EFFECT: Final = frozenset((
    "penalize_newline", "low_vram", "f16_kv", "logits_all", "vocab_only", "use_mlock", "mirostat",
    "mirostat_tau", "mirostat_eta"))
"""Parameters that Ollama had once. They are accepted with a warning."""

ONE_VALUE: Final[Mapping[str, Read]] = MappingProxyType({
    **dict.fromkeys(("TEMPLATE", "SYSTEM", "LICENSE", "AUTHOR"), anything),
    **dict.fromkeys(("FROM", "ADAPTER", "DRAFT", "RENDERER", "PARSER", "VISION_PROJECTOR"), filled),
    "REQUIRES": version, "GPU_LAYERS": whole, "FLASH_ATTENTION": boolean, "DIGEST": digest})
"""Instructions that take one value."""
KEY_AND_VALUE: Final[Mapping[str, Mapping[str, Read]]] = MappingProxyType({
    "PARAMETER": PARAMETERS,
    "MESSAGE": dict.fromkeys(("system", "user", "assistant"), anything),
    "THINKING": {"start": anything, "end": anything, "enabled": boolean},
    "TOOLFORMAT": dict.fromkeys(("style", "call_start", "call_end", "result_start", "result_end"),
                                anything),
    "CAPABILITY": dict.fromkeys(("json", "tools", "thinking", "vision"), boolean)})
"""Instructions that take a word and a value, and the words that each knows."""
ALIASES: Final[Mapping[str, str]] = MappingProxyType({"MMPROJ": "VISION_PROJECTOR"})
"""Other names of instructions."""
