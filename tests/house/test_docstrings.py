"""Every public method has a docstring: its own, its base class's, or that of a protocol."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

from house.tree import package_sources

_MODULES = [s.module for s in package_sources() if s.part not in ("__main__", "_native")]


def classes() -> Iterator[type]:
    for name in _MODULES:
        module = importlib.import_module(name)
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == name and value.__name__[0] != "_":
                yield value


def is_protocol(cls: type) -> bool:
    return getattr(cls, "_is_protocol", False)


def undocumented(cls: type, protocols: list[type]) -> Iterator[str]:
    """Public methods and properties of ``cls`` without a docstring."""
    fulfilled = [p for p in protocols if all(hasattr(cls, n) for n in _members(p))]
    for name in _members(cls):
        if not inspect.getdoc(getattr(cls, name)) and not any(
                inspect.getdoc(getattr(p, name, None)) for p in fulfilled if name in vars(p)):
            yield f"{cls.__module__}.{cls.__qualname__}.{name}"


def _members(cls: type) -> list[str]:
    kinds = (staticmethod, classmethod, property)
    return [name for name, value in vars(cls).items() if name[0] != "_"
            and (inspect.isfunction(value) or isinstance(value, kinds))]


def test_methods_are_documented() -> None:
    found = list(classes())
    protocols = [c for c in found if is_protocol(c)]
    missing = [name for c in found for name in undocumented(c, protocols)]
    assert not missing, "no docstring:\n" + "\n".join(missing)


def test_missing_docstring_is_noticed() -> None:
    class Bare:
        def walk(self) -> None: ...

    assert len(list(undocumented(Bare, []))) == 1
