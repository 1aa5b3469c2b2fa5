"""Short names such as llama3.2:1b, and what each stands for: a table that anyone can edit."""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from unladen.errors import InvalidArgument, UnladenError

VARIABLE: Final = "UNLADEN_NAMES"
"""The environment variable that names the user's own table."""
TABLE: Final = Path(__file__).parents[1] / "data" / "names.toml"
"""The table that comes with the package."""
MAX_STEPS: Final = 8
"""Names that may stand for one another before a table counts as going in circles."""
_LATEST: Final = ":latest"
_QUANT_TAG: Final = re.compile(
    r"(?P<name>.+?)(?:-(?:instruct|it|chat|text))?-(?P<quant>(?:i?q\d\w*|f16|bf16|f32))",
    re.IGNORECASE | re.ASCII)
"""A name with a type at its end, as in llama3.2:1b-instruct-q8_0."""
_ENDS_IN_QUANT: Final = re.compile(r":[\w.-]+$")


def own_table() -> Path:
    """Where the user's own table is, or would be."""
    if named := os.environ.get(VARIABLE):
        return Path(os.path.expanduser(named))
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home, "unladen", "names.toml")


def own_target(name: str) -> str | None:
    """What the user's own table says that ``name`` stands for; None: it doesn't say. Raises
    :class:`InvalidArgument` for a table that can't be used."""
    path = own_table()
    return _target(name, _read(path)) if path.is_file() else None


def shipped_target(name: str) -> str | None:
    """What the package's table says that ``name`` stands for; None: it doesn't say."""
    return _target(name, _shipped())


def meaning(text: str) -> str:
    """What ``text`` stands for in the end, by the user's table and then the package's; itself where
    neither has it. Raises :class:`InvalidArgument` for a table that can't be used."""
    own = followed(text)
    return shipped_target(own) or own


def blame(error: UnladenError, name: str, ref: str) -> None:
    """Add to the hint of ``error`` that ``name`` stands for ``ref``, and where to change that."""
    error.hint = (f"{error.hint}; {name} stands for {ref}, which a line in {own_table()} changes"
                  ).removeprefix("; ")


def followed(text: str) -> str:
    """What ``text`` stands for in the end by the user's own table. Raises
    :class:`InvalidArgument`."""
    seen = [text]
    while (found := own_target(seen[-1])) is not None:
        seen.append(found)
        if len(seen) > MAX_STEPS:
            raise InvalidArgument(f"{own_table()} goes in circles: {' stands for '.join(seen)}",
                                  hint="change one of these lines")
    return seen[-1]


@functools.cache
def _shipped() -> Mapping[str, str]:
    return _read(TABLE)


def _target(name: str, table: Mapping[str, str]) -> str | None:
    wanted = name.casefold().removesuffix(_LATEST)
    found = table.get(wanted)
    if found is not None:
        return found
    match = _QUANT_TAG.fullmatch(wanted)
    base = table.get(match["name"]) if match else None
    if match is None or base is None or base.lower().endswith(".gguf"):
        return None
    return f"{_ENDS_IN_QUANT.sub('', base)}:{match['quant'].upper()}"


def _read(path: Path) -> Mapping[str, str]:
    """The table at ``path``, names in lower case and without the tag ``latest``."""
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"{path}: this table of names isn't TOML: {error}", hint=(
            'a line of it is "llama3.2:1b" = "org/repo:Q4_K_M"')) from None
    except OSError as error:
        raise InvalidArgument(f"{path}: can't read this table of names: {error.strerror}",
                              hint="change its permissions, or remove it") from None
    for name, ref in given.items():
        if not isinstance(ref, str) or not ref.strip():
            raise InvalidArgument(f"{path}: {name!r} must stand for a model, got {ref!r}", hint=(
                'names with a dot or a colon need quotes: "llama3.2:1b" = "org/repo:Q4_K_M"'))
    return {name.casefold().removesuffix(_LATEST): ref for name, ref in given.items()}
