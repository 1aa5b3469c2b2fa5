"""The ladder of things that a model gives up, one rung after another, where memory runs out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from unladen.assembly.setup import kv_types
from unladen.errors import InvalidArgument
from unladen.graph.graph import Graph
from unladen.quants import get
from unladen.schedule.options import PlanOptions
from unladen.types import BLOCK_TOKENS

MIN_BATCH = 32
"""Fewest tokens of a step that the rung "ubatch" goes down to: with fewer, reading the weights
would dominate each step."""

RUNGS = ("ubatch", "kv:TYPE", "layers", "context")
"""All rungs, as users write them."""

_Steps = Iterator[tuple["Wishes", str]]


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's wishes for the plans of a model's graphs; the names are parameters of
    :class:`unladen.Model`."""

    options: PlanOptions
    context_size: int | None = None
    batch_size: int = 512
    max_seqs: int = 32
    kv_type: str | tuple[str, str] = "f16"
    cache_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs in the order in which they are taken. Each goes down as far as it can before the next
    one.

    "ubatch" halves the step; "kv:q8_0" stores the cache in that type (two by comma: keys, values);
    "layers" halves the layers on devices other than the host; "context" halves the context. Every
    rung applies to all ``graphs`` of the model. Raises :class:`InvalidArgument`.
    """

    rungs: Sequence[str]
    graphs: Sequence[Graph]

    def __post_init__(self) -> None:
        if isinstance(self.rungs, str):
            raise InvalidArgument(f"on_oom={self.rungs!r} isn't a list",
                                  hint=f"for example on_oom=[{self.rungs!r}]")
        for rung in self.rungs:
            if rung.startswith("kv:"):
                kv_types(_kv_pair(rung), *self.graphs)
            elif rung not in RUNGS:
                raise InvalidArgument(f"on_oom: {rung!r} isn't known",
                                      hint="use " + ", ".join(RUNGS))

    def down(self, wishes: Wishes, n_offloaded: int, context: int, n_needed: int
             ) -> Iterator[tuple[Wishes, str]]:
        """Ever smaller wishes, each with the change that its step down made. ``wishes``: the wishes
        to begin with. ``n_offloaded``: layers of a graph that are off the host by now. ``context``:
        the present context in tokens, of which ``n_needed`` are in use.
        """
        for rung in self.rungs:
            if rung == "ubatch":
                steps = _smaller_steps(wishes, context)
            elif rung == "layers":
                steps = _fewer_layers(wishes, n_offloaded)
            elif rung == "context":
                steps = _shorter_contexts(wishes, context, n_needed)
            else:
                steps = self._smaller_cache(_kv_pair(rung), wishes)
            for wishes, change in steps:  # the next rung begins at the last wishes
                yield wishes, change

    def _smaller_cache(self, pair: str | tuple[str, str], wishes: Wishes) -> _Steps:
        now, then = (kv_types(t, *self.graphs) for t in (wishes.kv_type, pair))
        specs = (spec for graph in self.graphs for spec in graph.states().values())
        for spec in islice(specs, 1):
            present, smaller = (get(k).row_bytes(spec.k_dim) + get(v).row_bytes(spec.v_dim)
                                for k, v in (now, then))
            if smaller < present:
                yield replace(wishes, kv_type=pair), f"kv_type {_named(now)} -> {_named(then)}"


def _smaller_steps(wishes: Wishes, context: int) -> _Steps:
    n = min(wishes.batch_size, context)
    while n > MIN_BATCH:
        less = max(MIN_BATCH, n // 2)
        yield replace(wishes, batch_size=less), f"batch_size {n} -> {less}"
        n = less


def _fewer_layers(wishes: Wishes, n: int) -> _Steps:
    options = wishes.options
    on_host = [d.is_host for d in options.open_devices()]
    while n and any(on_host) and not all(on_host):
        place = replace(options.place, n_gpu_layers=n // 2)
        yield (replace(wishes, options=replace(options, place=place)),
               f"n_gpu_layers {n} -> {n // 2}")
        n //= 2


def _shorter_contexts(wishes: Wishes, n: int, n_needed: int) -> _Steps:
    least = -(-n_needed // BLOCK_TOKENS) * BLOCK_TOKENS
    while (less := max(n // 2 // BLOCK_TOKENS * BLOCK_TOKENS, least)) < n:
        pool = wishes.cache_tokens
        yield (replace(wishes, context_size=less,
                       cache_tokens=None if pool is None else max(less, pool * less // n)),
               f"context_size {n} -> {less}")
        n = less


def _kv_pair(rung: str) -> str | tuple[str, str]:
    k_type, comma, v_type = rung.removeprefix("kv:").partition(",")
    return (k_type, v_type) if comma else k_type


def _named(types: tuple[str, str]) -> str:
    return ",".join(t.lower() for t in dict.fromkeys(types))
