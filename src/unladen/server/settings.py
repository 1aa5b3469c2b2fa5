"""What the operator decides: addresses, limits, models, times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from unladen.server.keys import Key


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """A model that can be asked for.

    * ``name``: the name by which clients ask for it. ``aliases``: other names for it.
    * ``ref``: what :class:`unladen.Model` takes: a file, a reference, "tiny".
    * ``options``: parameters of :class:`unladen.Model`.
    * ``keep_alive``: seconds that it stays loaded when nobody asks; negative: for ever; None: as
      the server's.
    """

    name: str
    ref: str
    aliases: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    keep_alive: float | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """The server's settings.

    * ``host``, ``port``: where it listens. ``socket``: a Unix socket in place of these.
    * ``models``: the models that can be asked for, the default first.
    * ``allow_any``: other models that are found in the stores can be asked for by reference.
    * ``any_options``: parameters of :class:`unladen.Model` for these other models.
    * ``preload``: load the first model at the start, not at its first request.
    * ``max_body_bytes``, ``max_nesting``, ``max_values``: of a request's JSON: its size, levels of
      lists and objects, and values. ``body_seconds``: to send it.
    * ``bodies_bytes``: of all bodies that are read at the same time.
    * ``max_header_bytes``, ``header_seconds``: of a request's headers, and to send them.
    * ``max_connections``: open at the same time. ``write_seconds``: a client that takes nothing for
      so long counts as gone.
    * ``max_answers``, ``max_inputs``: answers (``n``) and texts (embeddings, ranking) of a request.
    * ``heartbeat_s``: seconds without an event after which a stream shows that it lives.
    * ``max_waiting``: requests of one model that may wait; more get 429.
    * ``keep_alive``: seconds that a model stays loaded when nobody asks; negative: for ever.
    * ``max_loaded``: models loaded at once; None: as many as memory holds.
    * ``memory_share``: the share of each device's memory that models may have.
    * ``keys``, ``key_file``: keys that are accepted, and a file with more, which is read again when
      it changes; neither: everybody who reaches the server may ask.
    * ``origins``: web pages of these origins may ask. ``hosts``: names by which it is reached
      beside its own address.
    * ``cert``, ``cert_key``: files for TLS.
    * ``audit``: a file that gets a line for each request; None: none. ``log_requests``: the log
      gets one, too.
    * ``drain_s``: seconds that running requests have to end after SIGTERM.
    * ``load_s``: seconds after which a load counts as hung. ``hang_s``: seconds without a step
      after which a worker with requests counts as hung.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    socket: Path | None = None
    models: tuple[ModelSettings, ...] = ()
    allow_any: bool = False
    any_options: Mapping[str, Any] = field(default_factory=dict)
    preload: bool = True
    max_body_bytes: int = 64 * 2**20
    max_nesting: int = 64
    max_values: int = 400_000
    body_seconds: float = 60.0
    bodies_bytes: int = 512 * 2**20
    max_header_bytes: int = 64 * 2**10
    header_seconds: float = 10.0
    max_connections: int = 1000
    write_seconds: float = 60.0
    max_answers: int = 128
    max_inputs: int = 2048
    heartbeat_s: float = 10.0
    max_waiting: int = 64
    keep_alive: float = 300.0
    max_loaded: int | None = None
    memory_share: float = 0.9
    keys: tuple[Key, ...] = ()
    key_file: Path | None = None
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    cert: Path | None = None
    cert_key: Path | None = None
    audit: Path | None = None
    log_requests: bool = False
    drain_s: float = 5.0
    load_s: float = 600.0
    hang_s: float = 60.0

    @property
    def needs_key(self) -> bool:
        """Whether callers must send a key."""
        return bool(self.keys) or self.key_file is not None


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of :class:`unladen.Model` as JSON."""
    return {name: str(value) if isinstance(value, PurePath) else value
            for name, value in options.items()}
