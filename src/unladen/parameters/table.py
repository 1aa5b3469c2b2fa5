"""Tables of parameters: each name once, with its kind of values, default and description.

A table is a TypedDict. Each annotation carries a :class:`Parameter`, so the same lines tell a type
checker the names and types, and the package what to check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Kind, shown

GROUPS: Final = ("", "Files", "Devices", "Memory", "Speed", "Errors")
"""The headings under which parameters are described, in their order."""
MISSING: Final = object()
"""Stands in place of a default where a parameter has none."""
_NOTHING: Final[Mapping[object, object]] = MappingProxyType({})


class Option:
    """A parameter's option on the command line. The first of its ``names`` is the long one; a name
    that begins with ``--no-`` turns the parameter off. ``help`` describes the option, ``without``
    what happens if it isn't given."""

    __slots__ = ("help", "names", "without")

    def __init__(self, *names: str, help: str, without: str = "") -> None:  # noqa: A002
        self.names, self.help, self.without = names, help, without


class Parameter:
    """One parameter.

    ``kind`` checks its values. ``about`` describes it in one line that begins in lower case and
    ends without a full stop. ``option`` is its option on the command line, if it has one; ``group``
    the heading under which it is described.
    """

    __slots__ = ("about", "default", "group", "kind", "option")

    def __init__(self, kind: Kind, default: Any, about: str, option: Option | None = None,
                 group: str = "") -> None:
        self.kind, self.default, self.about = kind, default, about
        self.option, self.group = option, group


class Synonym:
    """Another program's name for the parameter ``ours``. ``means`` translates values that the other
    program spells differently."""

    __slots__ = ("means", "ours")

    def __init__(self, ours: str, means: Mapping[object, object] = _NOTHING) -> None:
        self.ours, self.means = ours, means


class Foreign:
    """Another program's parameter that doesn't exist here; ``instead`` says what to do, and
    ``for_value`` what to do about one value.

    Values that ask for nothing (``harmless``) are accepted.
    """

    __slots__ = ("for_value", "harmless", "instead")

    def __init__(self, instead: str, harmless: tuple[object, ...] = (),
                 for_value: Callable[[object], str] | None = None) -> None:
        self.instead, self.harmless, self.for_value = instead, harmless, for_value


Others = Mapping[str, Synonym | Foreign]


class Table:
    """The parameters of the function ``call`` by name. ``others`` returns other programs' names for
    them, which are used only for a name that isn't in the table."""

    __slots__ = ("call", "others", "parameters")

    def __init__(self, call: str, parameters: Mapping[str, Parameter],
                 others: Callable[[], Others]) -> None:
        self.call, self.parameters, self.others = call, parameters, others

    @staticmethod
    def of(call: str, names: type, others: Callable[[], Others]) -> Table:
        """The table of the TypedDict ``names``."""
        found = {name: annotation.__metadata__[0]
                 for name, annotation in names.__annotations__.items()
                 if hasattr(annotation, "__metadata__")}
        return Table(call, MappingProxyType(found), others)

    def taken(self, given: Mapping[str, object], *, present: Iterable[str] = ()) -> dict[str, Any]:
        """The ``given`` parameters by this package's names, with checked values.

        ``present`` are names for which the caller has a value already. Raises
        :class:`InvalidArgument` for an unknown name, a parameter that is given under two names, and
        a value of the wrong kind.
        """
        found: dict[str, Any] = {}
        called: dict[str, str] = {name: name for name in present}
        for name, value in given.items():
            ours = name
            if name not in self.parameters:
                translated = self._translated(name, value)
                if translated is None:
                    continue
                ours, value = translated
            if ours in called:
                raise InvalidArgument(f"both {called[ours]} and {name} are given",
                                      hint=f"they mean the same: give {ours} once")
            called[ours] = name
            found[ours] = self.parameters[ours].kind.of(name, value)
        return found

    def defaults(self) -> dict[str, Any]:
        """Every parameter's default by name."""
        return {name: each.default for name, each in self.parameters.items()
                if each.default is not MISSING}

    def _translated(self, name: str, value: object) -> tuple[str, object] | None:
        """This package's name and value for another program's; None for a value that asks for
        nothing."""
        other = self.others().get(name)
        if isinstance(other, Synonym) and other.ours in self.parameters:
            return other.ours, _looked_up(other.means, value)
        if isinstance(other, Foreign):
            if any(value is each or (type(value) is type(each) and value == each)
                   for each in other.harmless):
                return None
            raise InvalidArgument(f"{self.call} has no parameter {name}, got {shown(value)}",
                                  hint=other.for_value(value) if other.for_value is not None
                                  else other.instead)
        raise InvalidArgument(f"{self.call} has no parameter {name}", hint=self._nearest(name))

    def _nearest(self, name: str) -> str:
        from difflib import get_close_matches
        near = get_close_matches(name.lower(), self.parameters, n=1, cutoff=0.7)
        if near:
            return f"did you mean {near[0]}?"
        return "known: " + ", ".join(sorted(self.parameters))


def _looked_up(means: Mapping[object, object], value: object) -> object:
    for theirs, ours in means.items():
        if type(value) is type(theirs) and value == theirs:
            return ours
    return value


def described(table: Table, width: int = 100, indent: int = 4) -> str:
    """The parameters as lines of a docstring under their headings: name, default, description."""
    import textwrap
    pad = " " * indent
    lines: list[str] = []
    for group in sorted({p.group for p in table.parameters.values()}, key=GROUPS.index):
        lines += ["", f"{pad}{group}:", ""] if group else [""]
        for name, each in table.parameters.items():
            if each.group == group:
                default = "" if each.default is MISSING else f" = {each.default!r}"
                lines += textwrap.wrap(
                    f"* ``{name}{default}``: {each.about}.", width, initial_indent=pad,
                    subsequent_indent=pad + "  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines[1:])
