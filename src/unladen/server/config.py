"""Reads the server's settings: a TOML file, and the options of a command line."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Flag, Items, Kind, OrNone, PathText, Real, Text, Whole
from unladen.parameters.model import MODEL
from unladen.server.keys import read_keys
from unladen.server.pages import is_origin
from unladen.server.settings import ModelSettings, Settings

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)?")
_MODEL_NAME: Final = re.compile(r"[\w][\w.:/@+-]{0,199}")
_SPLIT: Final = re.compile(r"-[0-9]{5}-of-[0-9]{5}$")
_LONGEST: Final = 10 * 365 * 86400.0
"""Seconds of the longest time that a setting may have."""


class Duration(Kind):
    """Times in seconds; also texts such as "5m" or "1.5h". A negative one stands for ever."""

    example = "5m"

    def __init__(self, low: float = -math.inf) -> None:
        super().__init__("seconds, or a text such as 30s, 5m or 2h"
                         + ("" if low < 0 else f", at least {low:g} seconds"))
        self.low = low

    def of(self, name: str, value: object) -> float:
        """The seconds."""
        if isinstance(value, str):
            found = _DURATION.fullmatch(value.strip())
            if found is None:
                self.refuse(name, value)
            seconds = float(found[1]) * _UNITS[found[2] or "s"]
        elif isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            self.refuse(name, value)
        else:
            seconds = float(value)
        if seconds < self.low or seconds > _LONGEST:
            self.refuse(name, value)
        return seconds


class Origin(Kind):
    """Origins of web pages."""

    example = "https://chat.example"

    def __init__(self) -> None:
        super().__init__("an origin such as https://chat.example or http://localhost:*",
                         "an origin has a scheme and no path")

    def of(self, name: str, value: object) -> str:
        """The origin."""
        if not isinstance(value, str) or not is_origin(value):
            self.refuse(name, value)
        return value


_BYTES: Final = Whole(1024, 2**40)
_PATH: Final = OrNone(PathText("a path"))
SERVER: Final[Mapping[str, Kind]] = {
    "host": Text("an address or a name", filled=True), "port": Whole(0, 65535), "socket": _PATH,
    "allow_any": Flag(), "preload": Flag(), "max_body_bytes": _BYTES, "max_nesting": Whole(1, 200),
    "max_values": Whole(1), "body_seconds": Duration(0.001), "bodies_bytes": _BYTES,
    "max_header_bytes": _BYTES, "header_seconds": Duration(0.001), "max_connections": Whole(1),
    "write_seconds": Duration(0.001), "max_answers": Whole(1), "max_inputs": Whole(1),
    "heartbeat_s": Duration(0.001), "max_waiting": Whole(0), "keep_alive": Duration(),
    "max_loaded": OrNone(Whole(1)), "memory_share": Real(0.01, 1.0),
    "origins": Items(Origin(), "a list of origins", 'for example ["https://chat.example"]'),
    "hosts": Items(Text("a name", filled=True), "a list of names", 'for example ["box.example"]'),
    "cert": _PATH, "cert_key": _PATH, "audit": _PATH, "log_requests": Flag(),
    "drain_s": Duration(0), "load_s": Duration(0.001), "hang_s": Duration(0.001)}
"""The settings that a file's ``[server]`` can have, beside ``key_file``."""
_PATHS: Final = ("socket", "cert", "cert_key", "audit", "key_file")
_NOT_IN_FILES: Final = frozenset({"progress", "vocab_only"})
"""Parameters of a model that a server's models can't have."""


def settings_of(given: Mapping[str, Any], models: Sequence[ModelSettings], *, where: str = ""
                ) -> Settings:
    """The settings that ``given`` and ``models`` describe. ``where``: what error messages put
    before a setting's name. Raises :class:`InvalidArgument`."""
    given = dict(given)
    key_file = _PATH.of(f"{where}key_file", given.pop("key_file", None))
    found: dict[str, Any] = {}
    for name, value in given.items():
        kind = SERVER.get(name)
        if kind is None:
            raise InvalidArgument(f"{where}there is no setting {name!r}",
                                  hint=_nearest(name, [*SERVER, "key_file"]))
        try:
            found[name] = kind.of(f"{where}{name}", value)
        except InvalidArgument as error:
            error.hint = error.hint or "docs/guides/serve.md describes every setting"
            raise
        if name in _PATHS and found[name] is not None:
            found[name] = Path(found[name]).expanduser()
        elif isinstance(found[name], list):
            found[name] = tuple(found[name])
    if key_file is not None:
        found["key_file"] = Path(key_file).expanduser()
        read_keys(found["key_file"])  # raises the error that says what is wrong in it
    if ("cert" in found) != ("cert_key" in found):
        raise InvalidArgument(f"{where}cert and cert_key must be given together",
                              hint="TLS needs a certificate and its key")
    return Settings(models=distinct(models), **found)


def read_config(path: Path) -> tuple[dict[str, Any], list[ModelSettings]]:
    """What the file ``path`` says: the settings of ``[server]``, checked except that some may be
    missing, and the ``[[models]]``. Relative paths are from the file's folder. Raises
    :class:`InvalidArgument`, which names the file and the setting."""
    try:
        with open(path, "rb") as file:
            given = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}: this file isn't TOML: {error}",
                              hint="docs/guides/serve.md shows one") from None
    except OSError as error:
        raise InvalidArgument(f"{path}: can't read this file: {error.strerror}",
                              hint="--config names a TOML file") from None
    for name in given:
        if name not in ("server", "models"):
            raise InvalidArgument(f"{path}: there is no section {name!r}",
                                  hint="a file has [server] and [[models]]")
    server, models = given.get("server", {}), given.get("models", [])
    if not isinstance(server, dict):
        raise InvalidArgument(f"{path}: server must be a table", hint="begin it with [server]")
    if not isinstance(models, list) or not all(isinstance(each, dict) for each in models):
        raise InvalidArgument(f"{path}: models must be tables",
                              hint="begin each model with [[models]]")
    for name in _PATHS:
        if isinstance(server.get(name), str) and server[name]:
            server[name] = str(path.parent / Path(server[name]).expanduser())
    found = [_model(f"{path}: model number {i + 1}", each, path.parent)
             for i, each in enumerate(models)]
    settings_of(server, found, where=f"{path}: [server] ")
    return server, found


def model_of(text: str) -> ModelSettings:
    """The model that an argument names: a reference, or NAME=REFERENCE."""
    name, equals, ref = text.partition("=")
    if equals and ref and _MODEL_NAME.fullmatch(name) and not Path(text).expanduser().is_file():
        return ModelSettings(name, ref)
    return ModelSettings(name_of(text), text)


def name_of(ref: str) -> str:
    """The name by which clients ask for ``ref`` where it isn't given another: a file's name
    without suffix, else the reference itself."""
    if not ref.lower().endswith(".gguf") or "://" in ref:
        return ref
    return _SPLIT.sub("", Path(ref).name[:-len(".gguf")]) or ref


def distinct(models: Sequence[ModelSettings]) -> tuple[ModelSettings, ...]:
    """``models``, whose names must differ. Raises :class:`InvalidArgument`."""
    seen: dict[str, str] = {}
    for model in models:
        for name in (model.name, *model.aliases):
            if name in seen:
                raise InvalidArgument(f"two models are called {name}: {seen[name]} and {model.ref}",
                                      hint=f"name one of them: other={model.ref}")
            seen[name] = model.ref
    return tuple(models)


def with_options(models: Sequence[ModelSettings], options: Mapping[str, Any]
                 ) -> list[ModelSettings]:
    """``models`` with ``options`` where they have none of their own."""
    return [replace(model, options={**options, **model.options}) for model in models]


def _model(where: str, given: Mapping[str, Any], folder: Path) -> ModelSettings:
    given = dict(given)
    ref = given.pop("ref", None)
    if not isinstance(ref, str) or not ref:
        raise InvalidArgument(f"{where}: ref must be a file, a reference or an alias, got {ref!r}",
                              hint='for example ref = "org/repo:Q4_K_M"')
    if "\0" not in ref and (folder / Path(ref).expanduser()).is_file():
        ref = str(folder / Path(ref).expanduser())
    name = given.pop("name", name_of(ref))
    aliases = given.pop("aliases", [])
    for each in [name, *(aliases if isinstance(aliases, list) else [aliases])]:
        if not isinstance(each, str) or not _MODEL_NAME.fullmatch(each):
            raise InvalidArgument(
                f"{where}: a name must have letters, digits and ._:/@+- only, got {each!r}",
                hint='for example name = "chat" and aliases = ["small"]')
    keep_alive = given.pop("keep_alive", None)
    seconds = None if keep_alive is None else Duration().of(f"{where}: keep_alive", keep_alive)
    for key in given:
        if key in _NOT_IN_FILES:
            raise InvalidArgument(f"{where}: a server's model has no setting {key!r}",
                                  hint="leave it out")
    try:
        options = MODEL.taken(given)
    except InvalidArgument as error:
        raise InvalidArgument(f"{where}: {error.message}", hint=error.hint) from None
    return ModelSettings(name, ref, tuple([aliases] if isinstance(aliases, str) else aliases),
                         options, seconds)


def _nearest(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(known))}"
