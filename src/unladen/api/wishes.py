"""Turns the parameters of :class:`unladen.Model` into the options that a plan is made from."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unladen.errors import InvalidArgument
from unladen.parameters.model import KV_TYPE, MODEL, NO_FILE, PATH, ModelNames

if TYPE_CHECKING:
    from inspect import Signature

    from unladen.assembly.ladder import Wishes
    from unladen.backends.base import BackendOptions, Device
    from unladen.hub.preset import Preset
    from unladen.storage.packed import PackedCache

log = logging.getLogger("unladen")

PROBE_VARIABLE = "UNLADEN_PROBE"
_CACHE_NAMES = (("type_k", "cache_type_k"), ("type_v", "cache_type_v"))


class ParametersShown:
    """The signature of :class:`unladen.Model` as ``help()`` and notebooks show it: all names of the
    table. Made when it is asked for."""

    def __get__(self, model: object, owner: type) -> Signature:
        """The signature; the class has it, its objects don't."""
        from inspect import Parameter, Signature
        if model is not None:
            raise AttributeError("__signature__")
        path = Parameter("path", Parameter.POSITIONAL_OR_KEYWORD, annotation="str | os.PathLike")
        return Signature([path, *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=each.default)
            for name, each in MODEL.parameters.items())])


def given_of(path: object, given: Mapping[str, object]) -> tuple[str, dict[str, Any]]:
    """The path, and the ``given`` parameters by their names in this package, checked; raises
    :class:`InvalidArgument`."""
    named = with_kv_type(given)
    for other in ("model_path", "model"):
        if other in named:
            if path is not NO_FILE:
                raise InvalidArgument(f"both path and {other} are given",
                                      hint="they mean the same: give path once")
            path = PATH.of(other, named.pop(other))
    taken = MODEL.taken(named)
    chosen: str = PATH.of("path", path)
    return chosen, taken


def wanted_of(given: Mapping[str, Any], preset: Preset | None = None) -> ModelNames:
    """Every parameter: as ``given``, else as ``preset`` sets it, else its default. None leaves a
    parameter to the preset."""
    usual = {} if preset is None else preset.loading()
    wanted: Any = MODEL.defaults() | usual | {
        name: value for name, value in given.items() if value is not None or name not in usual}
    checked: ModelNames = wanted
    return checked


def within_trained(size: int | None, metadata: Mapping[str, object]) -> int | None:
    """``size``, the context that the settings of a name ask for, or what a model with this
    ``metadata`` was trained for where that is less."""
    trained = metadata.get(f"{metadata.get('general.architecture')}.context_length")
    if size is None or not isinstance(trained, int) or not 0 < trained < size:
        return size
    log.warning("num_ctx is %d, and the model was trained for %d tokens, which are taken", size,
                trained)
    return trained


def with_kv_type(given: Mapping[str, object]) -> dict[str, object]:
    """``given``, with ``kv_type`` in place of llama.cpp's two types, where these are names."""
    named = dict(given)
    types: list[object] = ["f16", "f16"]
    used = []
    for i, names in enumerate(_CACHE_NAMES):
        for name in names:
            if isinstance(named.get(name), str):
                used.append(name)
                types[i] = KV_TYPE.of(name, named.pop(name))
    if used:
        if "kv_type" in named or len(used) > len({name[-1] for name in used}):
            raise InvalidArgument(f"both {used[0]} and {['kv_type', *used[1:]][-1]} are given",
                                  hint='they mean the same: give kv_type=("f16", "q8_0") once')
        named["kv_type"] = tuple(types)
    return named


def options_of(wanted: ModelNames, packed: PackedCache | None) -> BackendOptions:
    """The options of backends. ``wanted``: the parameters of a model; ``packed``: its file of
    packed weights, None without one."""
    from unladen.backends.base import BackendOptions
    return BackendOptions(wanted["n_threads"], wanted["n_threads_batch"], wanted["precise"],
                   wanted["deterministic"], wanted["numa"], packed)


def plan_wishes(devices: Sequence[str | Device], wanted: ModelNames, used: BackendOptions
                ) -> Wishes:
    """The wishes for a plan: ``devices`` by name or opened, the parameters ``wanted``, and the
    options ``used`` by backends."""
    from unladen.assembly.ladder import Wishes
    from unladen.schedule.options import LoadOptions, PlanOptions
    from unladen.schedule.place import PlaceOptions
    placing: dict[str, Any] = {name: value for name, value in wanted.items()
                               if name in PlaceOptions.__dataclass_fields__}
    placing["override_tensor"] = placing["override_tensor"] or {}
    options = PlanOptions(
        devices, PlaceOptions(**placing), used, wanted["use_mmap"], wanted["strict"],
        loading=LoadOptions(wanted["progress"], wanted["use_mlock"]),
        probe=os.environ.get(PROBE_VARIABLE) != "0")
    return Wishes(options, wanted["context_size"], wanted["batch_size"], wanted["max_seqs"],
                  wanted["kv_type"], wanted["cache_tokens"])

