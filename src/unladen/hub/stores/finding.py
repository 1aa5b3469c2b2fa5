"""Lists what all stores hold, and finds a model by its name."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from unladen.discover import by_class, search
from unladen.errors import InvalidArgument, ModelNotFound
from unladen.hub.resolve import quants_in
from unladen.hub.stores._disk import printable, quietly
from unladen.hub.stores._repos import named
from unladen.hub.stores.base import Look, Store, StoredModel
from unladen.hub.stores.created import PROGRAM

_N_SHOWN: Final = 6
"""The most models that an error lists."""


@functools.cache
def stores() -> Mapping[str, Store]:
    """Every store by its program's name, in their order."""
    found = search("unladen.hub.stores", "stores",
                   by_class(Store, lambda cls: (cls.program,)))  # type: ignore[type-abstract]
    return {store.program: store for store in sorted(
        (cls() for cls in found.entries.values()), key=lambda store: store.order)}


def listed(look: Look | None = None) -> list[StoredModel]:
    """Everything in all stores, each file once under each of its names.

    ``look`` reads a header: it tells models from adapters, and finds files that are cut short.
    Without it a file's name and size alone say what it is.
    """
    found: dict[tuple[str, str], StoredModel] = {}
    for model in named(_seen(m, look) for store in stores().values() for m in store.models()):
        found.setdefault((model.place, model.name.casefold()), model)
    return list(found.values())


def _seen(model: StoredModel, look: Look | None) -> StoredModel:
    """``model`` with what its header says."""
    if look is None or not model.is_usable:
        return model
    kind, quant, problem = look(model.path)
    # Names have types that headers don't, such as UD-Q4_K_XL. Where a name has several, a header
    # tells which one is meant.
    is_sure = not model.quant or quant in quants_in(model.filename)
    return dataclasses.replace(model, kind=kind, quant=quant if is_sure else model.quant,
                               problem=printable(problem))


def find(name: str, look: Look | None = None) -> StoredModel | None:
    """The model that ``name`` stands for in the stores, in any case; None where there is none.

    The same repository in several stores is taken from the first of them. Raises
    :class:`InvalidArgument` where different models have the name, and :class:`ModelNotFound` where
    no model with the name can be used.
    """
    found = every_called(name, look)
    usable = _first_store([m for m in _created_first(found) if m.is_usable])
    if len({m.place for m in usable}) > 1:
        shown = "; ".join(f"{m.name} of {m.store} ({printable(str(m.path))})"
                          for m in usable[:_N_SHOWN])
        raise InvalidArgument(f"{name} may be several models: {shown}",
                              hint="give one of their paths, or a longer name")
    if usable:
        return usable[0]
    if found:
        one = found[0]
        what = one.problem or f"is not a model, but of kind {one.kind}"
        raise ModelNotFound(f"{name} is in {one.store}'s store, but {what}", hint=(
            "name the model it belongs to" if not one.problem else f"unladen pull {name} gets it"
            if stores()[one.store].is_ours else f"get it again with {one.store}"))
    return None


def every_called(name: str, look: Look | None = None) -> list[StoredModel]:
    """Every file that ``name`` stands for, also those that can't be used."""
    with quietly():
        return _every_called(name.removeprefix("https://").removeprefix("http://"), look)


def _every_called(wanted: str, look: Look | None) -> list[StoredModel]:
    every = listed()
    found = _called(wanted, every)
    if look is None or len(found) == 1:
        return found
    # Headers tell what names don't: which of the files is a model, and its quant.
    text = wanted.casefold()
    repos = {m.repo for m in every if m.repo and text.startswith(m.repo.casefold())}
    if not repos:
        return [_seen(m, look) for m in found]
    return _called(wanted, named(
        _seen(m, look if m.repo in repos else None)
        for store in stores().values() for m in store.models()))


def find_one(name: str, look: Look | None = None) -> StoredModel:
    """As :func:`find`, but raises :class:`ModelNotFound` where there is no such model."""
    found = find(name, look)
    if found is None:
        raise not_stored(name)
    return found


def not_stored(name: str) -> ModelNotFound:
    """The error for a ``name`` that no store has; its hint has names that are like it."""
    near = close_to(name)
    return ModelNotFound(f"no store on this machine has {name[:200]}", hint=(
        f"did you mean {' or '.join(near)}?" if near else "unladen list shows what there is"))


def close_to(name: str) -> list[str]:
    """Names of models in the stores that are like ``name``."""
    with quietly():
        names = {m.name.casefold(): m.name for m in listed() if m.is_usable}
    return [names[n] for n in get_close_matches(name[:200].casefold(), list(names), 2, 0.75)]


def _called(name: str, models: Iterable[StoredModel]) -> list[StoredModel]:
    """The models with this name; if some have it in this case, only they."""
    found = [m for m in models
             if name.casefold() in {n.casefold() for n in (m.name, *m.names) if n}]
    exact = [m for m in found if name in (m.name, *m.names)]
    return exact or found


def _created_first(models: list[StoredModel]) -> list[StoredModel]:
    """The model that the user made under a name, if ``models`` have one; else all of them."""
    return [m for m in models if m.store == PROGRAM] or models


def _first_store(models: list[StoredModel]) -> list[StoredModel]:
    """The models of the first store, if ``models`` all come from one repository on Hugging Face:
    the other stores have copies of the same."""
    if models and all(m.repo for m in models):
        return [m for m in models if m.store == models[0].store]
    return models
