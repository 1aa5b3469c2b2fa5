"""Builds options that several commands share from the table of parameters."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
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


def option(parameter: Parameter) -> Any:
    """The typer option of ``parameter``: everything but its type."""
    found = parameter.option
    assert found is not None
    return typer.Option(*found.names, help=found.help, show_default=found.without or True)


def with_options(name: str, parameters: Mapping[str, Parameter],
                 read: Mapping[str, Callable[[Any], object]], *, many: frozenset[str],
                 only_given: bool = False) -> Callable[..., Parameters]:
    """A function called ``name`` that takes the options of ``parameters`` and returns parameters of
    the Python interface.

    ``read`` has functions from an option's text to the parameter's value. Options in ``many`` may
    be repeated. ``only_given``: parameters whose option isn't given are left out.
    """
    def chosen(**options: Any) -> Parameters:
        found = {}
        for each, value in options.items():
            if only_given and (value is None or value is False or value == []):
                continue
            if _is_inverted(parameters[each]):
                value = not value
            found[each] = read[each](value) if each in read and value is not None else value
        return found

    chosen.__name__ = name
    chosen.__dict__["__signature__"] = inspect.Signature([
        inspect.Parameter(each, inspect.Parameter.KEYWORD_ONLY,
                          default=_default(parameter, each in many, only_given),
                          annotation=Annotated[_typed(parameter, each in many, only_given),
                                               option(parameter)])
        for each, parameter in parameters.items()], return_annotation=Parameters)
    return chosen


def _typed(parameter: Parameter, is_many: bool, only_given: bool) -> Any:
    kind = parameter.kind
    inner = kind.kind if isinstance(kind, OrNone) else kind
    if _is_switch(parameter):
        return bool
    typed: Any = (list[str] if is_many else int if isinstance(inner, Whole) else
                  float if isinstance(inner, Real) else str)
    return typed | None if is_many or only_given or parameter.default is None else typed


def _is_switch(parameter: Parameter) -> bool:
    kind = parameter.kind
    return isinstance(kind.kinds[0] if isinstance(kind, Either) else kind, Flag)


def _is_inverted(parameter: Parameter) -> bool:
    return parameter.option is not None and parameter.option.names[0].startswith("--no-")


def _default(parameter: Parameter, is_many: bool, only_given: bool) -> object:
    if _is_switch(parameter):
        return parameter.default != _is_inverted(parameter)
    return None if is_many or only_given else parameter.default
