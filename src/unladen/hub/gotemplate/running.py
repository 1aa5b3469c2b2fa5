"""Renders a parsed Go template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from unladen.errors import TemplateError
from unladen.hub.gotemplate import nodes
from unladen.hub.gotemplate.budget import Budget, Failed, error_at
from unladen.hub.gotemplate.functions import FUNCTIONS, LAZY, typescript
from unladen.hub.gotemplate.values import Record, Value, is_true, printed, type_name

_NOTHING: Final = object()
"""Stands for the value before the first command of a pipeline."""


def run(body: Sequence[nodes.Node], defined: Mapping[str, Sequence[nodes.Node]],
        data: Mapping[str, Value], budget: Budget) -> str:
    """What ``body`` writes for ``data``; ``defined`` are the templates that it may call. Raises
    :class:`TemplateError`."""
    running = _Running(defined, budget)
    try:
        running.call(body, dict(data))
    except Failed as error:
        raise TemplateError(str(error), line=running.line, hint=(
            "pass another template, or see whether the conversation has what it wants")) from error
    except RecursionError:
        # The caller is deep in calls itself: the budget's depth is more than is left.
        raise TemplateError("it nests too deeply", line=running.line,
                            hint="pass another template") from None
    return "".join(running.written)


class _Running:
    """``variables``: (name, value) of the running template, the newest last. ``line``: where it
    is."""

    def __init__(self, defined: Mapping[str, Sequence[nodes.Node]], budget: Budget) -> None:
        self.defined = defined
        self.budget = budget
        self.written: list[str] = []
        self.variables: list[tuple[str, Value]] = []
        self.line = 0

    def call(self, body: Sequence[nodes.Node], dot: Value) -> None:
        """Render ``body`` as a template of its own."""
        outer, self.variables = self.variables, [("$", dot)]
        self.render(body, dot)
        self.variables = outer

    def render(self, body: Sequence[nodes.Node], dot: Value) -> str:
        """Render ``body``. Returns "break" or "continue" where one of these ended it."""
        for node in body:
            self.line = node.line
            self.budget.step()
            match node:
                case nodes.Text():
                    self._write(node.text)
                case nodes.Action():
                    value = self.pipe(node.pipe, dot)
                    if not node.pipe.variables:
                        self._write(printed(value, self.budget))
                case nodes.Branch():
                    jump = self._nested(node, dot)
                    if jump:
                        return jump
                case nodes.Call():
                    self._template(node, dot)
                case nodes.Jump():
                    return node.kind
        return ""

    def _write(self, text: str) -> None:
        self.budget.write(len(text))
        self.written.append(text)

    def _nested(self, node: nodes.Branch, dot: Value) -> str:
        self.budget.enter()
        n_variables = len(self.variables)
        jump = (self._range if node.kind == "range" else self._choose)(node, dot)
        del self.variables[n_variables:]
        self.budget.leave()
        return jump

    def _choose(self, node: nodes.Branch, dot: Value) -> str:
        for pipe, body in node.cases:
            value = self.pipe(pipe, dot)
            if is_true(value):
                return self.render(body, value if node.kind == "with" else dot)
        return self.render(node.otherwise, dot)

    def _range(self, node: nodes.Branch, dot: Value) -> str:
        pipe, body = node.cases[0]
        value = self.pipe(pipe, dot)
        ran = False
        n_variables = len(self.variables)
        for key, item in self._items(value):
            ran = True
            self.budget.step()
            names = pipe.variables
            for name, part in zip(names, (key, item) if len(names) == 2 else (item,),
                                  strict=False):
                self._set(name, part, pipe)
            jump = self.render(body, item)
            del self.variables[n_variables:]
            if jump == "break":
                break
        return "" if ran else self.render(node.otherwise, dot)

    def _items(self, value: Value) -> Iterator[tuple[Value, Value]]:
        if isinstance(value, list):
            yield from enumerate(value)
        elif isinstance(value, dict):
            self.budget.step(len(value))
            yield from ((key, value[key]) for key in sorted(value))
        elif value is not None:
            raise Failed(f"range can't go over {type_name(value)}")

    def _template(self, node: nodes.Call, dot: Value) -> None:
        body = self.defined.get(node.name)
        if body is None:
            raise Failed(f"there is no template {node.name[:40]!r}")
        self.budget.enter()
        self.call(body, None if node.pipe is None else self.pipe(node.pipe, dot))
        self.budget.leave()

    def _set(self, name: str, value: Value, pipe: nodes.Pipe) -> None:
        if pipe.declares:
            self.variables.append((name, value))
            return
        for i in range(len(self.variables) - 1, -1, -1):
            self.budget.step()
            if self.variables[i][0] == name:
                self.variables[i] = (name, value)
                return
        raise error_at(pipe.line, f"undefined variable {name[:40]}")

    def pipe(self, pipe: nodes.Pipe, dot: Value) -> Value:
        """The value of ``pipe``, which its variables get."""
        value: Any = _NOTHING
        for command in pipe.commands:
            self.line = pipe.line
            value = self._command(command, dot, value)
        for name in pipe.variables:
            self._set(name, value, pipe)
        return value

    def _command(self, command: Sequence[nodes.Operand], dot: Value, last: Any) -> Value:
        self.budget.step()
        first = command[0]
        if isinstance(first, nodes.Function):
            return self._function(first.name, command[1:], dot, last)
        if len(command) > 1 or last is not _NOTHING:
            raise Failed("what isn't a function can't get arguments")
        if isinstance(first, nodes.Constant) and first.value is None:
            raise Failed("nil isn't a command")
        return self._operand(first, dot)

    def _function(self, name: str, operands: Sequence[nodes.Operand], dot: Value, last: Any
                  ) -> Value:
        values: list[Value] = []
        more = [] if last is _NOTHING else [last]
        for operand in operands:
            values.append(self._operand(operand, dot))
            if name in LAZY and is_true(values[-1]) == (name == "or"):
                return values[-1]
        return FUNCTIONS[name](self.budget, values + more)

    def _operand(self, operand: nodes.Operand, dot: Value) -> Value:
        self.budget.step()
        match operand:
            case nodes.Constant():
                return operand.value
            case nodes.Function():
                return self._function(operand.name, (), dot, _NOTHING)
            case nodes.Pipe():
                return self._inner(operand, dot)
        base = operand.base
        value = (dot if base is None else self._inner(base, dot) if isinstance(base, nodes.Pipe)
                 else self._variable(base))
        if value is None:
            return None  # Go looks for no field in nil, unless a field before was nil
        for name in operand.names:
            value = self._field(value, name)
        return value

    def _inner(self, pipe: nodes.Pipe, dot: Value) -> Value:
        self.budget.enter()
        value = self.pipe(pipe, dot)
        self.budget.leave()
        return value

    def _variable(self, name: str) -> Value:
        for i in range(len(self.variables) - 1, -1, -1):
            if self.variables[i][0] == name:
                return self.variables[i][1]
            self.budget.step()
        raise Failed(f"undefined variable {name[:40]}")

    def _field(self, value: Value, name: str) -> Value:
        self.budget.step()
        if isinstance(value, dict):
            return value.get(name)
        if isinstance(value, Record):
            if name in value.values:
                return value.values[name]
            if name == "ToTypeScriptType" and "AnyOf" in value.values:
                return typescript(self.budget, [value])
        if value is None:
            raise Failed(f"nil has no field {name[:40]}")
        raise Failed(f"{type_name(value)} has no field {name[:40]}")
