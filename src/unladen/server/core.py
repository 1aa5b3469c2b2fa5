"""What dialects see of the models. The supervisor is one; tests have another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from unladen.server.asked import Asked, Chat, Text
from unladen.server.events import Event, Result
from unladen.server.faults import Fault

State: TypeAlias = Literal["unloaded", "loading", "ready", "moving", "failed", "restarting"]
"""The state of a model: its worker isn't there, reads weights, answers, moves to other devices or
another context while its answers pause, couldn't load the weights, or died and is started again."""


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of a model without its weights.

    * ``name``: the name by which it is asked for. ``aliases``: other names.
    * ``path``: its file; dialects show it to nobody.
    * ``state``, ``share``: the state, and the share of the weights that is loaded. ``fault``: why
      the last load or move failed, or what is wrong with the file; None: nothing is known.
    * ``done_bytes``, ``total_bytes``: of the weights, while they are loaded; 0: not known.
    * ``context_size``: tokens of a sequence, as loaded, or as it would be; 0: not known.
    * ``trained_context``: tokens that it was trained for. ``n_embd``: numbers of an embedding.
    * ``device_bytes``: its bytes by device. ``gpu_bytes``: those on devices with memory of their
      own.
    * ``can``: of "chat", "complete", "embed", "rank", "tools", "reasoning", "infill".
    * ``preset``: ``system``, ``parameters`` and ``messages`` that belong to its name, as a
      Modelfile has them; {}: none do.
    * ``template``: its chat template, "" for none. ``metadata``: the file's, without long lists.
    * ``created``, ``expires``: seconds since 1970; when the file was made, and when the model is
      unloaded if nobody asks; None: never.
    * ``running``, ``waiting``: requests. ``tokens_per_second``: that are written now, of all
      together. ``options``: parameters of :class:`unladen.Model`.
    * ``n_blocks``, ``n_blocks_held``: blocks of its cache, and those that requests hold, as of some
      seconds ago. 0 where it isn't loaded.
    * ``experts``: choices of experts in layers with a cache of experts, and those of them that the
      caches had.
    * ``n_restarts``, ``n_evictions``: times that its worker died and was started again, and that
      it was unloaded to make room for another model.
    * ``n_arrivals``: times that it was loaded or moved. ``plan``: the report on its plan as it is
      in memory, as JSON; empty where it isn't loaded.
    * ``n_prefilled``, ``n_written``: tokens computed since the server began, of prompts and of
      answers. ``n_prompt``, ``n_cached``: tokens of the prompts of answers that are complete, and
      those of them that came from the cache.
    """

    name: str
    aliases: tuple[str, ...] = ()
    path: str = ""
    state: State = "unloaded"
    share: float = 0.0
    context_size: int = 0
    trained_context: int = 0
    n_embd: int = 0
    n_vocab: int = 0
    n_bytes: int = 0
    n_parameters: int = 0
    arch: str = ""
    quant: str = ""
    digest: str = ""
    device_bytes: Mapping[str, int] = field(default_factory=dict)
    gpu_bytes: int = 0
    can: frozenset[str] = frozenset()
    preset: Mapping[str, Any] = field(default_factory=dict)
    template: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created: int = 0
    expires: float | None = None
    running: int = 0
    waiting: int = 0
    tokens_per_second: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    n_blocks: int = 0
    n_blocks_held: int = 0
    experts: Sequence[int] = (0, 0)
    n_restarts: int = 0
    n_evictions: int = 0
    fault: Fault | None = None
    done_bytes: int = 0
    total_bytes: int = 0
    n_arrivals: int = 0
    plan: Mapping[str, Any] = field(default_factory=dict)
    n_prefilled: int = 0
    n_written: int = 0
    n_prompt: int = 0
    n_cached: int = 0

    @property
    def error(self) -> str:
        """The message of the ``fault``; "" for none."""
        return "" if self.fault is None else self.fault.message

    def condition(self) -> dict[str, Any]:
        """Fields that routes of all dialects show: how the model is."""
        return {"state": self.state, "progress": self.share, "error": self.error,
                "restarts": self.n_restarts}


Told: TypeAlias = Callable[[float, float], None]
"""Is told how many bytes of how many have come."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that asks: the key's ``name`` ("" where no key is needed), the ``scopes`` that
    it has, and the ``priority`` of its requests."""

    name: str = ""
    scopes: frozenset[str] = frozenset({"use", "manage"})
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Wish:
    """How a request is to be treated. ``keep_alive``: seconds that the model stays loaded
    afterwards; None: as the server's settings say; negative: for ever; 0: unload it then.
    ``deadline``: seconds after which the request ends. ``options``: parameters of
    :class:`unladen.Model` that the model is loaded with where it isn't loaded yet, such as
    ``context_size``."""

    caller: Caller = Caller()
    keep_alive: float | None = None
    deadline: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


PLAIN = Wish()
"""The wish of a request that has none."""


class Core(Protocol):
    """The models behind all dialects. Everything may raise
    :class:`~unladen.server.faults.Fault`."""

    def cards(self) -> Sequence[Card]:
        """Every model that can be asked for, in the order of the settings."""
        ...

    async def card(self, name: str) -> Card:
        """The model called ``name``, with all that its file says; an empty ``name``: the first one.
        Raises a ``Fault`` of kind ``unknown_model``."""
        ...

    def answer(self, name: str, asked: Chat | Text, wish: Wish = PLAIN
               ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """The events of an answer. The model is loaded if it must be. Leaving the context cancels
        what isn't written yet, within one step. Entering raises a ``Fault`` where the model is
        unknown, too many requests wait or the request is wrong as far as that is known at once;
        the iterator raises the others."""
        ...

    async def result(self, name: str, asked: Asked, wish: Wish = PLAIN) -> Result:
        """The answer to a question that has no events."""
        ...

    async def load(self, name: str, wish: Wish = PLAIN) -> Card:
        """Load a model, and wait until it answers."""
        ...

    async def begin(self, name: str, wish: Wish = PLAIN) -> Card:
        """Begin to load a model, and don't wait for it. Its card tells how that goes on."""
        ...

    async def place(self, name: str, changes: Mapping[str, Any]) -> Card:
        """Move a model that is loaded: ``changes`` are parameters of :meth:`unladen.Model.place`.
        Its answers pause meanwhile. Waits for the end; raises a ``Fault`` where the model isn't
        loaded or can't be moved, and then it stays as it was."""
        ...

    async def unload(self, name: str) -> Card:
        """Unload a model once its requests have ended."""
        ...

    async def change(self, what: str, given: Mapping[str, str], told: Told = lambda n, total: None
                     ) -> None:
        """Change the stores: "copy" the model ``source`` to ``name``, "create" ``name`` of a
        ``modelfile``, "remove" or "pull" ``name``. ``told`` gets the bytes of a download that have
        come, and all of them, 0 where nobody knows."""
        ...
