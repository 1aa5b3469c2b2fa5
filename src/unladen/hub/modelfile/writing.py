"""Writes Modelfiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

_INSTRUCTIONS: Final[Mapping[str, str]] = {"gpu_layers": "GPU_LAYERS",
                                           "thinking": "THINKING enabled"}
"""Parameters that have instructions of their own."""


def written(sources: Sequence[str], *, template: str | None = None, system: str | None = None,
            parameters: Mapping[str, Any] | None = None,
            messages: Sequence[Mapping[str, Any]] = (), licenses: Sequence[str] = ()) -> str:
    """A Modelfile of these values, each as :class:`~unladen.hub.modelfile.Modelfile` has them.

    ``sources``: the values of FROM. A text in which a line ends with three quotes can't be written
    so that it is read again; it is written all the same, for people.
    """
    return "".join(f"{line}\n" for line in _lines(sources, template, system, parameters or {},
                                                  messages, licenses))


def _lines(sources: Sequence[str], template: str | None, system: str | None,
           parameters: Mapping[str, Any], messages: Sequence[Mapping[str, Any]],
           licenses: Sequence[str]) -> Iterator[str]:
    yield from (f"FROM {_quoted(source)}" for source in sources)
    if template:
        yield f"TEMPLATE {_quoted(template)}"
    if system:
        yield f"SYSTEM {_quoted(system)}"
    for name, value in parameters.items():
        for each in value if isinstance(value, list | tuple) else [value]:
            yield f"{_INSTRUCTIONS.get(name, f'PARAMETER {name}')} {_quoted(_text(each))}"
    for each in messages:
        yield f"MESSAGE {each['role']} {_quoted(str(each['content']))}"
    yield from (f"LICENSE {_quoted(text)}" for text in licenses)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    """``text``, between quotes where it would be read as something else without them."""
    is_plain = bool(text) and text == text.strip(" \t") and not text.startswith('"') and not any(
        end in text for end in "\r\n")
    return text if is_plain else f'"""{text}"""'
