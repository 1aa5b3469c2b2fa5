"""Puts calls that count into a parsed template, and refuses templates that nest too deeply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from unladen.chat.sandbox.limits import LimitExceeded

if TYPE_CHECKING:
    from jinja2 import nodes

MAX_CHARS: Final = 400_000
"""Characters of a template. Those of models have up to 20,000."""
MAX_TOKENS: Final = 12_000
"""Words and signs in the code of a template. Those of models have up to 4,000; compiling takes
20 microseconds for each."""
MAX_DEPTH: Final = 120
"""How deep expressions and blocks may be nested in each other."""
MAX_NESTED: Final = 60_000
"""The sum over all nodes of the loops and macros around each: compiling takes time by it."""
MAX_BRACKETS: Final = 60
"""How deep brackets may be nested."""
BODIES: Final = frozenset({"body", "else_"})
"""The fields of a node that hold blocks. Each block counts itself when it is entered."""


def check(tree: nodes.Template) -> None:
    """Raise :class:`LimitExceeded` where ``tree`` is nested too deeply to be compiled in time."""
    from jinja2 import nodes
    scopes = (nodes.For, nodes.Macro, nodes.CallBlock, nodes.FilterBlock, nodes.With, nodes.Block,
              nodes.AssignBlock, nodes.Scope, nodes.ScopedEvalContextModifier)
    todo: list[tuple[nodes.Node, int, int]] = [(tree, 0, 0)]
    nested = 0
    while todo:
        node, depth, around = todo.pop()
        nested += around
        if depth > MAX_DEPTH or nested > MAX_NESTED:
            raise LimitExceeded("is nested too deeply", "a template made by a program")
        around += isinstance(node, scopes)
        todo.extend((child, depth + 1, around) for child in node.iter_child_nodes())


def rewrite(node: nodes.Node) -> nodes.Node:
    """``node``, and all below it, with filters in place of operations that have to be counted."""
    for name, value in node.iter_fields():
        if isinstance(value, list):
            setattr(node, name, [rewrite(v) if hasattr(v, "iter_fields") else v for v in value])
        elif hasattr(value, "iter_fields"):
            setattr(node, name, rewrite(value))
    return _replaced(node)


def _replaced(node: nodes.Node) -> nodes.Node:
    """What stands for ``node`` alone."""
    from jinja2 import nodes
    match node:
        case nodes.Concat(nodes=[first, *rest]):
            return _filter(first, "<concat>", *rest)
        case nodes.Getitem(arg=nodes.Slice() as cut, ctx="load"):
            bounds = (nodes.Const(None) if bound is None else bound
                      for bound in (cut.start, cut.stop, cut.step))
            return _filter(node.node, "<slice>", *bounds)
        case nodes.Getitem(ctx="load") | nodes.Pair():  # Python takes the hash of a key
            name = "key" if isinstance(node, nodes.Pair) else "arg"
            setattr(node, name, _compared(getattr(node, name)))
        case nodes.Compare():
            node.expr = _compared(node.expr)
        case nodes.Operand():
            node.expr = _compared(node.expr)
        case nodes.For():
            size = nodes.Const(cost(node.test)[0] if node.test else 0)
            node.iter = _filter(cast("nodes.Expr", node.iter), "<loop>", size)
        case nodes.List() | nodes.Dict():
            return _counted(node)
        case nodes.Tuple(ctx="load"):
            return _counted(node)
    return node


def _compared(node: nodes.Expr) -> nodes.Expr:
    from jinja2 import nodes
    return node if isinstance(node, nodes.Const) else _filter(node, "<compare>")


def _counted(node: nodes.Expr) -> nodes.Expr:
    """A list or dict whose size is counted, unless it has only constants."""
    from jinja2 import nodes
    parts = [part for child in node.iter_child_nodes()
             for part in ([child.key, child.value] if isinstance(child, nodes.Pair) else [child])]
    if parts and all(isinstance(part, nodes.Const) for part in parts):
        return node  # the size of the template bounds it
    return _filter(node, "<literal>")


def _filter(node: nodes.Expr, name: str, *args: nodes.Expr) -> nodes.Filter:
    from jinja2 import nodes
    return nodes.Filter(node, name, list(args), [], None, None, lineno=node.lineno)


def cost(*block: nodes.Node) -> tuple[int, int]:
    """The nodes of a block that run whenever it is entered, and the characters that it writes."""
    from jinja2 import nodes
    n_nodes = n_chars = 0
    todo = list(block)
    while todo:
        node = todo.pop()
        n_nodes += 1
        if isinstance(node, nodes.TemplateData):
            n_chars += len(node.data)
        todo.extend(node.iter_child_nodes(exclude=BODIES))
    return n_nodes, n_chars
