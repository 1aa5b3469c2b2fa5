"""The JSON of every answer of ``/ui/api``. Sizes are bytes, times seconds since 1970."""

from __future__ import annotations

from typing import Any, Literal, TypedDict


class Problem(TypedDict):
    """What is wrong and what to try; ``param``: the field of the body, "" for none. An answer with
    another status than 2xx is ``{"error": Problem}``; ``code`` is a kind of fault, such as
    "bad_request", "unknown_model", "no_key", "forbidden", "not_found", "offline", "out_of_memory",
    "load_failed", "worker_lost", "full", "closing", "internal"."""

    code: str
    message: str
    hint: str
    param: str


class Progress(TypedDict):
    """How far a load is: ``total`` is 0 where it isn't known. ``phase``: "start" before the
    weights, "download", "weights", "move"."""

    phase: Literal["start", "download", "weights", "move"]
    done: int
    total: int


class ChatAbilities(TypedDict):
    """What a model's template knows: reasoning, tools, and media such as "image"."""

    thinking: bool
    tools: bool
    media: list[str]


class ModelState(TypedDict):
    """A model that can be asked for.

    * ``id``: its name in requests; ``ref``: what ``plan`` and ``fit`` take, the same today.
    * ``state``: "moving": it changes its place, streams pause and go on.
    * ``context_size``: tokens as loaded, or as it would be loaded; 0: not known yet.
      ``trained_context``: tokens that it was trained for.
    * ``can``: of "chat", "complete", "embed", "rank", "tools", "reasoning", "infill".
    * ``options``: the parameters that aren't at their defaults.
    * ``device_bytes``: bytes by device, as loaded, or as it would be loaded.
    * ``expires``: when it is unloaded if nobody asks; null: never, or it isn't loaded.
    * ``arrived``: how often this model was loaded or moved: its plan changed where this changed.
    """

    id: str
    aliases: list[str]
    ref: str
    state: Literal["unloaded", "loading", "ready", "moving", "failed", "restarting"]
    progress: Progress | None
    error: Problem | None
    context_size: int
    trained_context: int
    bytes: int
    parameters: int
    arch: str
    quant: str
    can: list[str]
    chat: ChatAbilities
    options: dict[str, Any]
    device_bytes: dict[str, int]
    running: int
    waiting: int
    expires: float | None
    arrived: int


class DeviceState(TypedDict):
    """A device. ``is_host``: it computes in the host's memory. ``is_pretend``: it isn't there."""

    name: str
    description: str
    total_bytes: int
    free_bytes: int
    is_host: bool
    is_pretend: bool


class ServerState(TypedDict):
    """The whole state. ``run``: another text after each start of the server: numbers of events and
    lines then begin again. ``allow_any``: all models of the library can be loaded by their ``ref``,
    else only ``models``. ``can_manage``: the key may load, download and see the log. ``devices``:
    empty until they are known, then a further ``state`` event comes."""

    version: str
    run: str
    offline: bool
    allow_any: bool
    can_manage: bool
    models: list[ModelState]
    devices: list[DeviceState]


class StoredFile(TypedDict):
    """A model on this machine. ``ref``: what ``load``, ``plan`` and ``fit`` take. ``path_label``:
    the file's name, without its folder. ``store``: the program that keeps it, "unladen" for those
    that come with the package, "file" for other files of the settings. ``context``: tokens that it
    was trained for. ``problem``: why it can't be loaded, "" if it can. ``model``: the id in
    ``state`` of the model with this file, null: none yet."""

    ref: str
    path_label: str
    store: str
    bytes: int
    arch: str
    quant: str
    parameters: int
    context: int
    parts_missing: int
    problem: str
    model: str | None


class HubRepo(TypedDict):
    """A repository with GGUF files on the hub. ``gated``: its owner wants people to agree first.
    ``updated``: as "2026-11-28T12:00:00+00:00", "" where it isn't known."""

    repo: str
    downloads: int
    likes: int
    updated: str
    gated: bool


class HubPage(TypedDict):
    """Some of the repositories that were found. ``cursor``: for the next ones; null: no more."""

    repos: list[HubRepo]
    cursor: str | None


class HubFile(TypedDict):
    """A model in a repository, with all its parts. ``ref``: what ``downloads`` and ``fit`` take.
    ``parts``: how many files it has. ``is_here``: it is in the hub's cache."""

    ref: str
    name: str
    quant: str
    bytes: int
    parts: int
    parts_missing: int
    is_here: bool


class HubFiles(TypedDict):
    """A repository's models."""

    repo: str
    files: list[HubFile]


class Fit(TypedDict):
    """Whether a model would fit with automatic settings, and how fast it would be. ``gpu_layers``
    of ``n_layers``: those that aren't on the host. ``bound``: what limits a decode step, such as
    "memory of cpu:0". ``short_bytes``: what is missing on the device that lacks most.
    ``error``: why nothing is known; everything else is then 0, false or ""."""

    ref: str
    fits: bool
    gpu_layers: int
    n_layers: int
    decode_tps: float
    prefill_tps: float
    bound: str
    context_size: int
    bytes: int
    short_bytes: int
    error: Problem | None


class Fits(TypedDict):
    """The answer of ``fit``, in the order of ``refs``."""

    files: list[Fit]


class Download(TypedDict):
    """A download. ``ref``: the model. ``done`` of ``total`` bytes are there; ``total`` is 0 until
    the hub has told it. ``rate``: bytes a second in the last seconds. ``error``: why it failed;
    "resume" tries again. ``created``: when it was asked for."""

    id: str
    ref: str
    state: Literal["queued", "running", "paused", "failed", "done"]
    done: int
    total: int
    rate: float
    error: Problem | None
    created: float


class Downloads(TypedDict):
    """All downloads, the oldest first. Those that are done stay until they are deleted."""

    downloads: list[Download]


class Resolved(TypedDict):
    """An option as a plan has it. ``source``: "set" where it was given, else "auto". ``least`` and
    ``greatest``: sensible values where it is a number, else null; ``choices``: where it is one of
    several texts, else null."""

    value: Any
    source: Literal["auto", "set"]
    least: float | None
    greatest: float | None
    choices: list[str] | None


class Accepted(TypedDict):
    """What was asked for is under way; events tell the rest."""

    id: str
    state: str


class ModelDetail(TypedDict):
    """A model, and its plan as it is in memory, as ``plan`` answers it with ``taken_bytes``
    by device; null where it isn't loaded."""

    model: ModelState
    plan: dict[str, Any] | None


class Sample(TypedDict):
    """A second. ``decode_tps`` and ``prefill_tps``: tokens computed in it. ``running`` and
    ``waiting``: requests. ``prompt_tokens`` and ``cached_tokens``: of requests that ended in it,
    the tokens of prompts, and those of them that came from the cache. ``bytes``: what models have
    on each device."""

    time: float
    decode_tps: float
    prefill_tps: float
    running: int
    waiting: int
    prompt_tokens: int
    cached_tokens: int
    bytes: dict[str, int]


class Columns(TypedDict):
    """Samples, the oldest first, as columns of the same length. A device that had nothing has
    0."""

    time: list[float]
    decode_tps: list[float]
    prefill_tps: list[float]
    running: list[int]
    waiting: list[int]
    prompt_tokens: list[int]
    cached_tokens: list[int]
    bytes: dict[str, list[int]]


class Line(TypedDict):
    """A line of the server's log, with its number ``n``. ``level``: "debug", "info", "warning" or
    "error"."""

    n: int
    time: float
    level: str
    text: str


class Lines(TypedDict):
    """Lines after a number. ``last``: the number of the last line, for the next look."""

    lines: list[Line]
    last: int
