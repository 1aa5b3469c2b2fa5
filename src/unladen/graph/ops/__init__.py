"""The ops that graphs are made of: one file each, found by scanning this folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from unladen.discover import Found, by_class, search
from unladen.errors import UnsupportedOp
from unladen.graph.ops.base import Op

__all__ = ["Op", "get_op", "registry"]


@functools.cache
def found() -> Found[Op]:
    """Every op by name, and the plug-ins that were left out."""
    of_module = by_class(Op, lambda c: (str(c.name),))
    return search("unladen.graph.ops", "ops",
                  lambda module: ((name, c()) for name, c in of_module(module)))


@functools.cache
def registry() -> Mapping[str, Op]:
    """Every op by name."""
    return found().named()


def get_op(name: str) -> Op:
    """The op called ``name``. Raises :class:`UnsupportedOp` where there is none."""
    try:
        return registry()[name]
    except KeyError:
        raise UnsupportedOp(f"no op is called {name!r}", node=name, device="",
                            hint="known: " + ", ".join(sorted(registry()))) from None
