"""Keys: what callers prove themselves with. Only hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from unladen.errors import InvalidArgument

SCOPES: Final = frozenset({"use", "manage"})
"""What a key can allow: to ask models; to load, unload and change them."""
PREFIX: Final = "sk-unladen-"
"""Keys that are made begin so, so that tools that look for leaked secrets find them."""
SHORTEST: Final = 16
"""Characters of a key that opens the server to other machines."""
_SECRET_BYTES: Final = 32
"""Random bytes of a key that is made: more than anyone can try."""
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NAME: Final = re.compile(r"[\w.@-]{1,64}")


@dataclass(frozen=True, slots=True)
class Key:
    """A key that is accepted.

    * ``name``: shown in the audit's lines. ``digest``: :func:`digest_of` the key.
    * ``scopes``: of :data:`SCOPES`.
    * ``requests_per_minute``, ``concurrent``: limits of its requests; None: none.
    * ``priority``: of its requests; higher ones are served first.
    """

    name: str
    digest: str
    scopes: frozenset[str] = SCOPES
    requests_per_minute: int | None = None
    concurrent: int | None = None
    priority: int = 0


def make_key() -> str:
    """A new key."""
    return PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(key: str | bytes) -> str:
    """The hash of ``key``, as key files have it. One round is enough: a key that is made has 256
    random bits, so nobody can try them all."""
    data = key.encode("utf-8", "surrogateescape") if isinstance(key, str) else key
    return "sha256:" + hashlib.sha256(data).hexdigest()


def find(keys: Iterable[Key], given: str | bytes) -> Key | None:
    """The key that ``given`` is, or None. The time doesn't depend on which one."""
    digest, found = digest_of(given), None
    for key in keys:
        if hmac.compare_digest(key.digest, digest):
            found = key
    return found


def entry(name: str, key: str) -> str:
    """The lines of a key file for ``key``."""
    return f'[[keys]]\nname = "{name}"\nhash = "{digest_of(key)}"\nscopes = ["use", "manage"]\n'


def read_keys(path: Path) -> tuple[Key, ...]:
    """The keys of a key file. Raises :class:`InvalidArgument` where others can read or change the
    file, and for what is wrong in it."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise InvalidArgument(
                    f"{path}: others can read or change this key file (its mode is "
                    f"{stat.S_IMODE(mode):o})", hint=f"chmod 600 {path}")
            given = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}: this key file isn't TOML: {error}",
                              hint="docs/guides/serve.md shows a key file") from None
    except OSError as error:
        raise InvalidArgument(f"{path}: can't read this key file: {error.strerror}",
                              hint="unladen serve --make-key NAME --key-file FILE makes one"
                              ) from None
    if set(given) - {"keys"} or not isinstance(given.get("keys"), list) or not given["keys"]:
        raise InvalidArgument(f"{path}: a key file has [[keys]] and nothing else",
                              hint="unladen serve --make-key NAME --key-file FILE adds a key")
    keys = tuple(_key(f"{path}: key number {i + 1}", each) for i, each in enumerate(given["keys"]))
    for what, values in (("name", [key.name for key in keys]),
                         ("hash", [key.digest for key in keys])):
        if len(set(values)) < len(values):
            raise InvalidArgument(f"{path}: two keys have the same {what}",
                                  hint=f"give each key a {what} of its own")
    return keys


def add_key(path: Path, name: str) -> str:
    """Make a key, add its hash to the file ``path``, which only its owner can read, and return the
    key. Raises :class:`InvalidArgument`."""
    if not _NAME.fullmatch(name):
        raise InvalidArgument(f"a key's name must have letters, digits and ._@- only, got {name!r}",
                              hint="for example laptop")
    if path.exists() and any(key.name == name for key in read_keys(path)):
        raise InvalidArgument(f"{path} has a key {name!r} already",
                              hint="choose another name, or remove that one from the file")
    key = make_key()
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a",
                  encoding="utf-8") as file:
            file.write(entry(name, key) if file.tell() == 0 else "\n" + entry(name, key))
    except OSError as error:
        raise InvalidArgument(f"{path}: can't write this key file: {error.strerror}",
                              hint="choose a file in a folder that you can write to") from None
    return key


def _key(where: str, given: object) -> Key:
    if not isinstance(given, dict):
        raise InvalidArgument(f"{where} must be a table, got {given!r}",
                              hint="begin it with [[keys]]")
    unknown = set(given) - {"name", "hash", "scopes", *_LIMITS}
    if unknown:
        raise InvalidArgument(f"{where}: there is no setting {min(unknown)!r}",
                              hint=f"there are name, hash, scopes, {', '.join(_LIMITS)}")
    name, digest = given.get("name"), given.get("hash")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"{where}: name must have letters, digits and ._@- only, "
                              f"got {name!r}", hint='for example name = "laptop"')
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        raise InvalidArgument(f"{where}: hash must be sha256: and 64 hexadecimal digits",
                              hint="unladen serve --make-key NAME --key-file FILE writes it")
    scopes = given.get("scopes", ["use"])
    if not isinstance(scopes, list) or not scopes or not all(
            isinstance(each, str) and each in SCOPES for each in scopes):
        raise InvalidArgument(f"{where}: scopes must be a list of {', '.join(sorted(SCOPES))}, "
                              f"got {scopes!r}", hint='for example scopes = ["use"]')
    return Key(name, digest, frozenset(scopes), **_limits(where, given))


_LIMITS: Final[Mapping[str, int]] = {"requests_per_minute": 1, "concurrent": 1, "priority": -100}
"""A key's settings that are numbers, and the least value of each."""
_HIGHEST: Final = 2**31 - 1
"""The highest value of these settings."""


def _limits(where: str, given: Mapping[str, Any]) -> dict[str, int]:
    found = {}
    for name, least in _LIMITS.items():
        if name not in given:
            continue
        value = given[name]
        if type(value) is not int or not least <= value <= _HIGHEST:
            raise InvalidArgument(f"{where}: {name} must be a whole number from {least} on, "
                                  f"got {value!r}", hint=f"for example {name} = 10")
        found[name] = value
    return found
