"""Makes plans from files and wishes: decides the context, the blocks of the cache, and the sizes of
a step."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from unladen.assembly.sources import Sources
from unladen.backends import default_devices
from unladen.backends._host import free_host_bytes
from unladen.backends.base import Device, KVLayout, full_name
from unladen.cache.windows import most_blocks
from unladen.errors import InvalidArgument
from unladen.graph.graph import Graph
from unladen.graph.ops import get_op
from unladen.graph.ops.attention import Scoring
from unladen.graph.windows import windows_of
from unladen.models import Architecture
from unladen.quants import get
from unladen.runtime.carry import Kept
from unladen.runtime.plan_set import PlanSet
from unladen.schedule import fit
from unladen.schedule.blueprint_set import BlueprintSet, GraphWish, make_blueprints
from unladen.schedule.options import PlanOptions
from unladen.schedule.place import Choice
from unladen.types import BLOCK_TOKENS, MAIN, Limits

log = logging.getLogger("unladen")

MAX_LOGITS_BYTES = 64 << 20
"""Most bytes of one step's logits. Where all logits of a longer text are wanted, it takes several
steps.
"""

MAX_SLOT_BYTES = 1 << 30
"""Most bytes of recurrent state, for all sequences and checkpoints together. The larger one state
is, the fewer slots there are."""

MIN_SLOTS = 4
"""Fewest slots of recurrent state: one sequence needs two in a step, and two for checkpoints."""

N_CHECKPOINTS = 8
"""Slots for checkpoints, beyond the two of each sequence that takes part in a step."""

KV_TYPES = ("f16", "f32", "q8_0")
"""Formats of the KV cache, as users write them."""

DEVICES_VARIABLE = "UNLADEN_DEVICES"
"""The environment variable with the devices of models that name none, separated by commas."""


class StepSizes(TypedDict):
    """Wishes for a step's largest size and the cache: :class:`unladen.Model`'s parameters."""

    context_size: int | None
    batch_size: int
    max_seqs: int
    kv_type: str | tuple[str, str]
    cache_tokens: int | None


def device_names(devices: Sequence[str | Device] | None) -> tuple[str | Device, ...]:
    """``devices`` by their full names, other engines' too (see
    :func:`~unladen.backends.base.full_name`); None: the environment's, else those that
    :func:`~unladen.backends.default_devices` finds."""
    if devices is None:
        devices = [d for d in os.environ.get(DEVICES_VARIABLE, "").split(",") if d] or [
            d.name for d in default_devices()]
    if isinstance(devices, str) or not devices:
        raise InvalidArgument(f"devices={devices!r} isn't a list of device names",
                              hint='for example devices=["cpu"]')
    names = [full_name(d) if isinstance(d, str) else d for d in devices]
    if len({d if isinstance(d, str) else d.name for d in names}) != len(names):
        raise InvalidArgument(f"devices={list(devices)} names a device twice",
                              hint='numbers tell logical devices apart: devices=["cpu:0", "cpu:1"]')
    return tuple(names)


def make_plans(sources: Sources, architectures: Mapping[str, Architecture], options: PlanOptions,
               **sizes: Unpack[StepSizes]) -> tuple[PlanSet, int]:
    """The plans of ``architectures``, by the names of their graphs, and the context size that they
    serve."""
    blueprint, context = blueprint_for(architectures, options, **sizes)
    if sizes["cache_tokens"] is None:
        blueprint = with_pool(blueprint)
    return allocate(sources, blueprint), context


def with_pool(blueprint: BlueprintSet, kept: Kept | None = None) -> BlueprintSet:
    """``blueprint`` with a cache for several sequences instead of one whole context. The cache gets
    the memory that the plan leaves, up to a whole context for each sequence of a step. A cache that
    is ``kept`` keeps its size, unless memory leaves room for twice as much."""
    kept = Kept() if kept is None else kept
    limits, layout = blueprint.main.limits, blueprint.main.layout
    most = limits.n_seqs * limits.n_blocks_per_seq
    free = fit.free_bytes(blueprint.devices)
    caches = [cache for b in blueprint.members.values() for layouts in [b.layouts]
              for layer, cache in b.caches().items() if not layouts[layer].window]
    found = fit.n_blocks(blueprint.memory, caches, layout, free, most)
    for n in {kv.layout.n_blocks for kv in kept.state_of(MAIN).kv.values()
              if not kv.layout.window}:
        if max(layout.n_blocks, found // 2 + 1) <= n <= most:
            same = blueprint.with_blocks(n)
            if min(same.memory.left(_with_shared(free, same, kept)).values(), default=0) >= 0:
                return same
    return blueprint.with_blocks(found)


def _with_shared(free: Mapping[str, int], blueprint: BlueprintSet, kept: Kept) -> dict[str, int]:
    """The bytes by device that are ``free``, plus those that ``blueprint`` takes over from
    ``kept``."""
    shared, devices = kept.shared_bytes(blueprint), blueprint.devices
    return fit.with_more(free, devices, [(d, shared.get(d.name, 0)) for d in devices])


def allocate(sources: Sources, blueprint: BlueprintSet, kept: Kept | None = None) -> PlanSet:
    """The plans of ``blueprint``, with weights from ``sources``. Takes over what is ``kept`` of
    earlier plans. Raises :class:`OutOfMemory`; where a device lacks room, it allocates nothing
    first."""
    kept = Kept() if kept is None else kept
    check_beside(blueprint, kept)
    plans = PlanSet(blueprint, sources.data, kept)
    log.debug("memory:\n%s", plans.memory())
    return plans


def check_beside(blueprint: BlueprintSet, kept: Kept) -> None:
    """Raise :class:`OutOfMemory` where a device lacks the room for ``blueprint`` beside all that is
    in memory now. What it takes over from ``kept`` is there already."""
    kept.restrict_to(blueprint)
    blueprint.memory.check(_with_shared(fit.free_bytes(blueprint.devices), blueprint, kept))


def check_instead(blueprint: BlueprintSet, plans: PlanSet) -> None:
    """Raise :class:`OutOfMemory` where a device lacks the room for ``blueprint`` even once
    ``plans`` are freed."""
    free = fit.with_more(fit.free_bytes(blueprint.devices), blueprint.devices,
                         [(m.device, m.taken_bytes or 0) for m in plans.memory().devices])
    blueprint.memory.check({d.name: min(d.memory_bytes or sys.maxsize, free[d.name])
                            for d in blueprint.devices})


def check_without_caches(blueprint: BlueprintSet, kept: Kept) -> None:
    """Raise :class:`OutOfMemory` where a device lacks the room for ``blueprint`` even once the
    caches that are ``kept`` are freed."""
    caches = [(buffer.device, buffer.nbytes) for state in kept.states.values()
              for kv in state.kv.values() for buffer in (kv.k, kv.v)]
    free = fit.with_more(fit.free_bytes(blueprint.devices), blueprint.devices, caches)
    blueprint.memory.check(_with_shared(free, blueprint, Kept(kept.weights)))


def blueprint_for(architectures: Mapping[str, Architecture], options: PlanOptions,
                  choices: Mapping[str, Choice] | None = None,
                  **sizes: Unpack[StepSizes]) -> tuple[BlueprintSet, int]:
    """The blueprints of ``architectures``, by the names of their graphs, whether they fit or not,
    and their context size. :data:`~unladen.types.MAIN` is the model's own; taps belong to its
    graph. All graphs take turns, serve the same sequences and get the sizes that are wished for.
    They choose their places in the order of ``architectures``, or have ``choices``. Without
    ``cache_tokens`` the cache holds one whole context. Raises :class:`InvalidArgument`.
    """
    context_size, kv_type = sizes["context_size"], sizes["kv_type"]
    cache_tokens, trained = sizes["cache_tokens"], architectures[MAIN].context_length
    for name, value in (("context_size", context_size), ("batch_size", sizes["batch_size"]),
                        ("max_seqs", sizes["max_seqs"]), ("cache_tokens", cache_tokens)):
        if value is not None and value < 1:
            raise InvalidArgument(f"{name} must be at least 1, got {value}",
                                  hint=f"for example {name}=512")
    graphs = {name: a.build(context_size) for name, a in architectures.items()}
    types = kv_types(kv_type, *graphs.values())
    if context_size is None and cache_tokens is not None:
        context_size = min(cache_tokens, trained)
    context = _context(graphs.values(), trained, context_size, sizes, *types)
    if cache_tokens is not None and cache_tokens < context:
        raise InvalidArgument(f"cache_tokens={cache_tokens} is less than context_size={context}",
                              hint="the cache must hold at least one whole sequence")
    layout = KVLayout(BLOCK_TOKENS, -(-(cache_tokens or context) // BLOCK_TOKENS), *types)
    untapped = replace(options, looked=(), changes={})
    windows = {w for graph in graphs.values() for w in windows_of(graph.nodes).values() if w}
    limits = {name: _limits(graph, architectures[name].n_vocab, context, layout.n_blocks, sizes)
              for name, graph in graphs.items()}
    wishes = {name: GraphWish(graph, _with_windows(limits[name], windows), layout,
                              options if name == MAIN else untapped)
              for name, graph in graphs.items()}
    return make_blueprints(wishes, choices), context


def _limits(graph: Graph, n_vocab: int, context: int, n_blocks: int, sizes: StepSizes) -> Limits:
    is_whole = not all(Scoring.of(n).causal for n in graph.nodes if n.op == "attention")
    batch_size = context if is_whole else min(sizes["batch_size"], context)
    n_seqs = min(sizes["max_seqs"], batch_size)
    n_outputs = max(n_seqs, min(batch_size, MAX_LOGITS_BYTES // (4 * n_vocab)))
    return Limits(batch_size, batch_size if is_whole else n_outputs, n_seqs,
                  -(-context // BLOCK_TOKENS), n_blocks, BLOCK_TOKENS, _n_slots(graph, n_seqs),
                  is_whole)


def _with_windows(limits: Limits, windows: Iterable[int]) -> Limits:
    """``limits`` with blocks for layers that see ``windows``: as many as sequences hold at most."""
    return replace(limits, windows=tuple(
        (w, _window_blocks(w, limits.n_seqs, limits.n_tokens)) for w in sorted(windows)))


def _window_blocks(window: int, n_seqs: int, n_tokens: int) -> int:
    """Blocks that ``n_seqs`` sequences hold at most in a layer that sees ``window`` tokens, while a
    step writes ``n_tokens``."""
    return n_seqs * most_blocks(window, BLOCK_TOKENS) + -(-n_tokens // BLOCK_TOKENS)


def _n_slots(graph: Graph, n_seqs: int) -> int:
    slot_bytes = 4 * sum(get_op(n.op).state_size(n) for n in graph.nodes)
    if slot_bytes == 0:
        return 0
    return max(MIN_SLOTS, min(2 * n_seqs + N_CHECKPOINTS, MAX_SLOT_BYTES // slot_bytes))


def kv_types(kv_type: str | tuple[str, str], *graphs: Graph) -> tuple[str, str]:
    """Formats of keys and values; raises :class:`InvalidArgument` where one is unknown or doesn't
    fit the heads of ``graphs``."""
    pair = (kv_type, kv_type) if isinstance(kv_type, str) else kv_type
    if len(pair) != 2 or any(t.lower() not in KV_TYPES for t in pair):
        raise InvalidArgument(f"kv_type={kv_type!r} isn't known",
                              hint="use " + ", ".join(KV_TYPES) + ", or a pair of these")
    k_type, v_type = (t.upper() for t in pair)
    for spec in [s for graph in graphs for s in graph.states().values()]:
        for name, dim in ((k_type, spec.k_dim), (v_type, spec.v_dim)):
            if dim % get(name).block_size:
                raise InvalidArgument(
                    f"heads of {dim} are no whole number of {name} blocks of "
                    f"{get(name).block_size}", hint="use kv_type=f16 with this model")
    return k_type, v_type


def _context(graphs: Iterable[Graph], trained: int, wanted: int | None, sizes: StepSizes,
             k_type: str, v_type: str) -> int:
    """The context size that is ``wanted``; None: as many of the ``trained`` tokens as half of the
    free memory holds. Layers that see a window need no more than the blocks of that window."""
    if wanted is not None:
        if wanted > trained:
            log.warning("context_size=%d is more than the %d tokens that the model was trained "
                        "for: it may write nonsense beyond them", wanted, trained)
        return wanted
    one = KVLayout(1, 1, k_type, v_type)
    batch_size = min(sizes["batch_size"], trained)
    n_seqs = min(sizes["max_seqs"], batch_size)
    layers: list[tuple[int, int]] = []  # most tokens of the cache, bytes of each
    for graph in graphs:
        states = graph.states().values()
        windows = windows_of(graph.nodes)
        layers += [(BLOCK_TOKENS * _window_blocks(windows[s.layer], n_seqs, batch_size)
                    if windows[s.layer] else trained, sum(fit.kv_bytes(s, one))) for s in states]
    fits = _most_tokens(layers, free_host_bytes() // 2, trained)
    if fits >= trained:
        return trained
    context = max(BLOCK_TOKENS, fits // BLOCK_TOKENS * BLOCK_TOKENS)
    log.warning("the context is %d tokens instead of the model's %d: the cache may take half of "
                "the free memory (set context_size for another)", context, trained)
    return context


def _most_tokens(layers: Sequence[tuple[int, int]], nbytes: int, at_most: int) -> int:
    """The tokens up to ``at_most`` whose cache fits in ``nbytes``. ``layers``: of each the most
    tokens that it holds, and the bytes of one."""
    low, high = 0, at_most
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(middle, most) * each for most, each in layers) <= nbytes:
            low = middle
        else:
            high = middle - 1
    return low
