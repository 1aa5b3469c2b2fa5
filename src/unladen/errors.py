"""Every exception that unladen raises. Each says what, where and what to try."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class UnladenError(Exception):
    """Base of all errors raised on purpose.

    ``hint`` says what to try; the command line prints it on its own line after the message.
    """

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class InvalidArgument(UnladenError, ValueError):
    """A parameter has a wrong value; the message names the parameter."""


class ModelNotFound(UnladenError, FileNotFoundError):
    """A model's name leads to no file."""


class GGUFError(UnladenError):
    """A GGUF file is malformed. ``path``: the file. ``offset``: the byte where this was noticed."""

    def __init__(self, message: str, *, path: str, offset: int = 0, hint: str = "") -> None:
        super().__init__(f"{path}: {message} (at byte {offset})", hint=hint)
        self.path = path
        self.offset = offset


class UnsupportedModel(UnladenError):
    """The file's ``general.architecture`` (``arch``) or tokenizer isn't implemented."""

    def __init__(self, message: str, *, arch: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.arch = arch


class UnsupportedOp(UnladenError):
    """A device can't run ``node``."""

    def __init__(self, message: str, *, node: str, device: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.node = node
        self.device = device


class UnsupportedQuant(UnladenError):
    """A block format is unknown, removed from GGUF, or can't be written."""


class OutOfMemory(UnladenError, MemoryError):
    """A device doesn't have enough memory; ``requested`` and ``free`` are in bytes. ``graphs`` maps
    the graphs that should share the memory to the bytes that each needs, if there are several."""

    def __init__(self, *, device: str, requested: int, free: int, hint: str = "",
                 graphs: Mapping[str, int] | None = None) -> None:
        graphs = graphs or {}
        parts = ", ".join(f"{name} takes {n}" for name, n in graphs.items())
        super().__init__(f"{device}: out of memory: asked for {requested} bytes"
                         + (f" ({parts})" if parts else "") + f", {free} free", hint=hint)
        self.device = device
        self.requested = requested
        self.free = free
        self.graphs = graphs

    def again(self) -> OutOfMemory:
        """A copy that was never raised, so it holds no frames and none of the memory in them."""
        return OutOfMemory(device=self.device, requested=self.requested, free=self.free,
                           hint=self.hint, graphs=self.graphs)


class MemoryLockError(UnladenError):
    """Memory can't be locked: ``requested`` bytes, ``limit`` of them allowed (None: unknown)."""

    def __init__(self, message: str, *, requested: int, limit: int | None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.requested = requested
        self.limit = limit


class DiskFull(UnladenError, OSError):
    """The disk has no room for a file that should be written."""


class DeviceLost(UnladenError):
    """A device stopped answering, or belongs to the process that this one was forked from."""


class NotFinite(UnladenError):
    """Logits or embeddings hold NaN or infinity: the file's weights are damaged, or the type of the
    cache can't hold the model's keys and values."""


class TapError(UnladenError):
    """A function given to :meth:`unladen.Model.tap` raised an exception, or returned something that
    can't replace the value of ``node``."""

    def __init__(self, message: str, *, node: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.node = node


class ExtensionError(UnladenError):
    """Files that extend the package don't fit together; the message names them."""


class BackendNotInitialised(UnladenError):
    """No backend or device of this machine has the given name."""


class ContextOverflow(UnladenError):
    """A prompt or a generation needs more tokens than the context holds: it has ``n_tokens``, and
    at most ``limit`` fit; 0 where they aren't known."""

    def __init__(self, message: str, *, n_tokens: int = 0, limit: int = 0, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.n_tokens, self.limit = n_tokens, limit


class TemplateError(UnladenError):
    """A chat template is malformed, fails on a conversation, or does something that templates may
    not do. ``line`` is the template's line where that was noticed, 0 if it isn't known.
    ``refused``: the template itself says that it doesn't accept the conversation."""

    def __init__(self, message: str, *, line: int = 0, refused: bool = False, hint: str = ""
                 ) -> None:
        super().__init__(f"chat template, line {line}: {message}" if line
                         else f"chat template: {message}", hint=hint)
        self.line = line
        self.refused = refused


class ModelfileError(UnladenError):
    """A Modelfile is malformed. ``line``: where the instruction begins, counted from 1; 0 where the
    whole file is meant."""

    def __init__(self, message: str, *, line: int = 0, hint: str = "") -> None:
        super().__init__(f"Modelfile, line {line}: {message}" if line
                         else f"Modelfile: {message}", hint=hint)
        self.line = line


class Cancelled(UnladenError):
    """A request was cancelled: by its owner, because its model was closed, or because the process
    was forked and the request belongs to the parent."""


class DeadlineExceeded(UnladenError, TimeoutError):
    """A request's deadline passed before it had a result."""


class QueueFull(UnladenError):
    """The queue is full: ``n_waiting`` requests wait. The new request was refused; try it again
    later."""

    def __init__(self, message: str, *, n_waiting: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.n_waiting = n_waiting


class ReentrantCall(UnladenError, RuntimeError):
    """A model was called from inside one of its own steps. The call would wait for the step, and
    the step for the call."""


class UnsupportedSchema(InvalidArgument):
    """A JSON schema has a ``keyword`` that can't be compiled to a constraint. ``place``: the schema
    that has it, as a JSON pointer ("#/properties/name"); "" where it isn't known."""

    def __init__(self, message: str, *, keyword: str = "", place: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.keyword = keyword
        self.place = place


class ConstraintFailed(UnladenError):
    """A constraint can't tell which tokens may come next, or none of them may: a grammar that grows
    too complex, a token that it doesn't allow, a bias that bans all that it allows."""
