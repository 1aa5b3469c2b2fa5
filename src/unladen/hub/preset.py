"""What a model's name stands for beside weights: template, system message, messages, parameters."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from unladen.errors import InvalidArgument
from unladen.parameters.chat import CHAT
from unladen.parameters.model import MODEL

log = logging.getLogger("unladen")

LOADING: Final[Mapping[str, str]] = {
    "num_ctx": "context_size", "num_batch": "batch_size", "num_gpu": "n_gpu_layers",
    "gpu_layers": "n_gpu_layers", "main_gpu": "main_gpu", "num_thread": "n_threads",
    "use_mmap": "use_mmap", "draft_num_predict": "n_draft"}
"""Parameters of Modelfiles that say how a model is loaded, and this package's names for them.
``gpu_layers`` is Mullama's GPU_LAYERS."""
ANSWERING: Final[Mapping[str, str]] = {
    **{name: name for name in ("temperature", "top_k", "top_p", "min_p", "typical_p", "seed",
                               "repeat_penalty", "presence_penalty", "frequency_penalty", "stop")},
    "repeat_last_n": "penalty_last_n", "num_predict": "max_tokens", "thinking": "reasoning"}
"""Parameters of Modelfiles that say how a model answers, and this package's names for them.
``thinking`` is Mullama's THINKING enabled."""
WITHOUT_EFFECT: Final = frozenset({"num_keep"})
"""Parameters of Modelfiles that change nothing here: a full context ends the text."""
_AUTOMATIC: Final[Mapping[str, int]] = {"num_gpu": -1, "num_thread": 0, "num_ctx": 0,
                                        "draft_num_predict": 0}
"""Values that leave a parameter to the program; they count as not given."""
_WHOLE: Final = frozenset({"num_ctx", "num_batch", "num_gpu", "gpu_layers", "main_gpu",
                           "num_thread", "draft_num_predict", "top_k", "seed", "repeat_last_n",
                           "num_predict"})
"""Parameters that are whole numbers."""
_NO_END: Final = (-1, -2)
"""Values of ``num_predict`` that set no limit."""


@dataclass(frozen=True, slots=True)
class Preset:
    """The settings that belong to a name.

    * ``template``: the text of a Go or Jinja template, or a format's name; "": the file's own.
    * ``yields``: the template is used only where the file has none.
    * ``system``: the system message of conversations that have no other.
    * ``messages``: dicts of role and content with which every conversation begins.
    * ``parameters``: by the names that Modelfiles have for them; the caller's count more.
    * ``licenses``: texts of licenses; they change nothing.
    """

    template: str = ""
    yields: bool = False
    system: str = ""
    messages: Sequence[Mapping[str, str]] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    licenses: Sequence[str] = ()

    def __bool__(self) -> bool:
        """Whether it sets anything."""
        return bool(self.template or self.system or self.messages or self.parameters)

    def loading(self) -> dict[str, Any]:
        """The parameters of :class:`unladen.Model` that it sets. Those that can't be used are left
        out, each with a warning."""
        return _usable(self.parameters, LOADING)

    def answering(self) -> dict[str, Any]:
        """The parameters of :meth:`unladen.Model.chat` that it sets; see :meth:`loading`."""
        return _usable(self.parameters, ANSWERING)


def messages_in(owner: str, told: Sequence[object]) -> list[Mapping[str, str]]:
    """Those of ``told``, stored messages of the model ``owner``, that are messages: dicts whose
    role and content are texts. The others are left out, each with a warning that says why."""
    found: list[Mapping[str, str]] = []
    for i, each in enumerate(told, start=1):
        wrong = "it" if not isinstance(each, dict) else next(
            (f"its {key}" for key in ("role", "content") if not isinstance(each.get(key), str)), "")
        if wrong:
            log.warning("message %d of %d of %s is left out: %s is no %s", i, len(told), owner,
                        wrong, "message" if wrong == "it" else "text")
        elif isinstance(each, dict):
            found.append({"role": each["role"], "content": each["content"]})
    return found


def check(name: str, value: object) -> None:
    """Raise :class:`InvalidArgument` where the parameter ``name`` of a Modelfile can't have
    ``value``."""
    table, ours = (MODEL, LOADING) if name in LOADING else (CHAT, ANSWERING)
    if name in ours and not _is_nothing(name, value):
        table.parameters[ours[name]].kind.of(name, value)


def _usable(parameters: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    found = {}
    for name, ours in names.items():
        if name not in parameters or _is_nothing(name, parameters[name]):
            continue
        value = parameters[name]
        if isinstance(value, float) and value.is_integer() and name in _WHOLE:
            value = int(value)  # JSON of other programs has no whole numbers
        try:
            check(name, value)
        except InvalidArgument as error:
            log.warning("a parameter of the model is left out: %s", error.message)
        else:
            found[ours] = value
    return found


def _is_nothing(name: str, value: object) -> bool:
    """Whether ``value`` leaves ``name`` as if it wasn't given."""
    return value is None or (name in _AUTOMATIC and value == _AUTOMATIC[name]) or (
        name == "num_predict" and value in _NO_END)
