"""Builds options that several commands share from the table of parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any

import typer

from unladen.parameters.kinds import Either, Flag, OrNone, Real, Whole
from unladen.parameters.table import Parameter

Parameters = dict[str, Any]
"""Values by the names of the Python interface's parameters."""


def extended(command: Callable[..., None], shared: Callable[..., Parameters]
             ) -> Callable[..., None]:
    """``command`` with the options of ``shared`` added to its command line. ``command`` gets the
    result of ``shared`` as one parameter, which has the name of ``shared``."""
    name = shared.__name__
    own, added = (inspect.signature(f, eval_str=True) for f in (command, shared))
    parameters = {**own.parameters, **added.parameters}
    del parameters[name]

    @functools.wraps(command)
    def run(**options: Any) -> None:
        chosen = {each: options.pop(each) for each in added.parameters}
        command(**options, **{name: shared(**chosen)})

    run.__dict__["__signature__"] = own.replace(parameters=list(parameters.values()))
    run.__annotations__ = {each: p.annotation for each, p in parameters.items()}
    return run


def option(parameter: Parameter, *, shows_default: bool = True) -> Any:
    """The typer option of ``parameter``: everything but its type. ``shows_default``: the help
    shows the parameter's own default where the option names no other."""
    found, default = parameter.option, parameter.default
    assert found is not None
    is_text = shows_default and isinstance(default, str | int | float) and not isinstance(
        default, bool)
    return typer.Option(*found.names, help=found.help,
                        show_default=found.without or (str(default) if is_text else True))


def with_options(name: str, parameters: Mapping[str, Parameter],
                 read: Mapping[str, Callable[[Any], object]] = MappingProxyType({}), *,
                 many: frozenset[str] = frozenset(), shows_defaults: bool = True
                 ) -> Callable[..., Parameters]:
    """A function called ``name`` that takes the options of ``parameters`` and returns parameters of
    the Python interface: those whose option is given, also with the default as its value. What
    isn't given may have a value of the model's own.

    ``read`` has functions from an option's text to the parameter's value. Options in ``many`` may
    be repeated. ``shows_defaults``: as in :func:`option`.
    """
    def chosen(**options: Any) -> Parameters:
        found = {}
        for each, value in options.items():
            if value == _default(parameters[each]) or value == []:
                continue
            if _is_inverted(parameters[each]):
                value = not value
            found[each] = read[each](value) if each in read else value
        return found

    chosen.__name__ = name
    chosen.__dict__["__signature__"] = inspect.Signature([
        inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY, default=_default(parameter),
                          annotation=Annotated[_typed(parameter, each in many), option(
                              parameter, shows_default=shows_defaults)])
        for each, parameter in parameters.items()], return_annotation=Parameters)
    return chosen


def _typed(parameter: Parameter, is_many: bool) -> Any:
    kind = parameter.kind
    inner = kind.kind if isinstance(kind, OrNone) else kind
    if _is_switch(parameter):
        return bool
    typed: Any = (list[str] if is_many else int if isinstance(inner, Whole) else
                  float if isinstance(inner, Real) else str)
    return typed | None


def _is_switch(parameter: Parameter) -> bool:
    kind = parameter.kind
    return isinstance(kind.kinds[0] if isinstance(kind, Either) else kind, Flag)


def _is_inverted(parameter: Parameter) -> bool:
    return parameter.option is not None and parameter.option.names[0].startswith("--no-")


def _default(parameter: Parameter) -> object:
    """What typer gives for an option that isn't given."""
    return parameter.default != _is_inverted(parameter) if _is_switch(parameter) else None
