"""The ops: what a transformer is made of, one file each, found by scanning this folder."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from unladen.discover import classes
from unladen.errors import UnsupportedOp
from unladen.graph.ops.base import Op

__all__ = ["Op", "get_op", "registry"]


@functools.cache
def registry() -> Mapping[str, Op]:
    """Every op by name."""
    return {c.name: c() for c in classes("unladen.graph.ops", "ops", Op)}


def get_op(name: str) -> Op:
    """The op called ``name``; raises :class:`UnsupportedOp`."""
    try:
        return registry()[name]
    except KeyError:
        raise UnsupportedOp(f"no op is called {name!r}", node=name, device="",
                            hint="known: " + ", ".join(sorted(registry()))) from None
