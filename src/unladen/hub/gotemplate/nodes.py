"""The parts of a parsed Go template."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Constant:
    """A number, a text, true or false; ``nil`` where ``value`` is None."""

    value: object


@dataclass(frozen=True, slots=True)
class Path:
    """Fields of a value: of ``.`` where ``base`` is None, of the variable that it names, or of what
    it computes."""

    base: str | Pipe | None
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A function's name."""

    name: str


@dataclass(frozen=True, slots=True)
class Pipe:
    """Commands, each of which gets the value before it as its last argument. ``variables``: those
    that get the result; ``declares``: they are new."""

    line: int
    commands: tuple[tuple[Operand, ...], ...]
    variables: tuple[str, ...] = ()
    declares: bool = False


Operand: TypeAlias = Constant | Path | Function | Pipe


@dataclass(slots=True)
class Text:
    """Text that is written as it is."""

    line: int
    text: str


@dataclass(slots=True)
class Action:
    """Writes the value of ``pipe``."""

    line: int
    pipe: Pipe


@dataclass(slots=True)
class Branch:
    """``if``, ``with`` or ``range`` (``kind``). ``cases``: each condition with what it guards;
    those of ``else if`` and ``else with`` come after the first."""

    line: int
    kind: str
    cases: list[tuple[Pipe, list[Node]]] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """Writes the template called ``name`` with ``pipe`` as its dot; None: nil."""

    line: int
    name: str
    pipe: Pipe | None


@dataclass(slots=True)
class Jump:
    """``break`` or ``continue`` (``kind``)."""

    line: int
    kind: str


Node: TypeAlias = Text | Action | Branch | Call | Jump


@dataclass(slots=True)
class Parsed:
    """A template: what it writes, the templates that it defines, and the names of all fields in it
    in lower case."""

    body: list[Node]
    defined: dict[str, list[Node]]
    names: frozenset[str]
