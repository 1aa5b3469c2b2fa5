"""Reports on plans for people and programs: bytes by device, tokens per second, and the reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from unladen.schedule import fit
from unladen.schedule.blueprint_set import BlueprintSet
from unladen.schedule.place import numbers
from unladen.schedule.search.cost import Prediction
from unladen.schedule.show import picture
from unladen.schedule.show.layers import end_bytes, layer_bytes
from unladen.types import MAIN, size_text


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """The caches of layers that see ``window`` tokens, 0: all. Each has ``n_blocks`` blocks, all
    together have ``nbytes``."""

    window: int
    n_layers: int
    n_blocks: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class PlanReport:
    """The blueprints of a model's graphs with what is free and what is predicted. Nothing has been
    allocated. A notebook shows it as a picture.

    ``predicted``: the predictions of a decode step and a prefill step, by the graph's name.
    ``files``: the names of the files that the weights come from, by their keys.
    ``taken``: bytes by device that are allocated, where the blueprints are in memory.
    ``resolved``: what became of each parameter of :meth:`unladen.Model.place`, as values for JSON.
    """

    title: str
    context_size: int
    blueprint: BlueprintSet
    free: Mapping[str, int]
    predicted: Mapping[str, tuple[Prediction, Prediction]]
    files: Mapping[str, str] = field(default_factory=dict)
    taken: Mapping[str, int] = field(default_factory=dict)
    resolved: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, blueprint: BlueprintSet, title: str, context_size: int,
           taken: Mapping[str, int] = MappingProxyType({}),
           files: Mapping[str, str] = MappingProxyType({})) -> PlanReport:
        """The report on ``blueprint`` of the model called ``title``. ``taken``: bytes by device
        that were allocated by now. ``files``: names of files by key; other files are called by
        their keys, and the model's own file ``title``.
        """
        devices = blueprint.devices
        found = fit.with_more(fit.free_bytes(devices), devices,
                              [(d, taken.get(d.name, 0)) for d in devices])
        free = {d.name: min(found[d.name], d.memory_bytes) for d in devices}
        names = {key: key for key in blueprint.file_bytes()} | {MAIN: title} | dict(files)
        return cls(title, context_size, blueprint, free,
                   {name: b.predict() for name, b in blueprint.members.items()}, names, taken)

    @property
    def decode(self) -> Prediction:
        """A decode step of the language model."""
        return self.predicted[MAIN][0]

    @property
    def prefill(self) -> Prediction:
        """A prefill step of the language model."""
        return self.predicted[MAIN][1]

    def __repr__(self) -> str:
        state = "fits" if self.fits() else "doesn't fit"
        layers = numbers(self.blueprint.main.layers)
        return (f"<PlanReport of {self.title!r}: {state}, {layers} layers, "
                f"{self.context_size} tokens of context, {self.decode.per_second:.3g} tokens/s "
                "predicted>")

    def _repr_svg_(self) -> str:
        """A notebook shows this: the picture."""
        return self.svg()

    @property
    def cache_tokens(self) -> int:
        """Tokens of all sequences together that the cache holds."""
        layout = self.blueprint.main.layout
        return layout.n_blocks * layout.block_tokens

    def cache_groups(self) -> list[CacheGroup]:
        """The caches of layers that see whole sequences, then those of each window from the
        smallest on, of all graphs together."""
        found: dict[int, list[tuple[int, int]]] = {}
        for b in self.blueprint.members.values():
            layouts = b.layouts
            for spec, _ in b.caches().values():
                layout = layouts[spec.layer]
                found.setdefault(layout.window, []).append(
                    (layout.n_blocks, sum(fit.kv_bytes(spec, layout))))
        return [CacheGroup(window, len(layers), layers[0][0], sum(n for _, n in layers))
                for window, layers in sorted(found.items())]

    def caches(self) -> list[str]:
        """A line for each of :meth:`cache_groups`, where there are several."""
        groups, size = self.cache_groups(), self.blueprint.main.layout.block_tokens
        if len(groups) < 2:
            return []
        return ["layers that see "
                + (f"a window of {g.window:,} tokens" if g.window else "all tokens")
                + f" ({g.n_layers}): {g.n_blocks:,} cache blocks of {size} tokens, "
                + size_text(g.nbytes)
                for g in groups]

    @property
    def devices(self) -> Sequence[fit.DeviceMemory]:
        """Bytes on each device that has something to hold."""
        return self.blueprint.memory.devices

    @property
    def left(self) -> Mapping[str, int]:
        """The bytes by device that stay free; below 0 where the device is too small."""
        return self.blueprint.memory.left(self.free)

    def layers_on(self, device: str) -> int:
        """How many layers of all graphs are on ``device``, also in part."""
        return sum(len(b.held_on(device)) for b in self.blueprint.members.values())

    def fits(self) -> bool:
        """Whether every device is large enough."""
        return all(n >= 0 for n in self.left.values())

    def facts(self) -> dict[str, Any]:
        """The whole report as values for JSON."""
        left, main = self.left, self.blueprint.main
        embed, head = main.ends()
        return {
            "model": self.title, "context_size": self.context_size,
            "cache_tokens": self.cache_tokens, "fits": self.fits(),
            "caches": [{"window": g.window, "n_layers": g.n_layers, "n_blocks": g.n_blocks,
                        "bytes": g.nbytes} for g in self.cache_groups()],
            "devices": [{
                "name": m.device.name, "description": m.device.description,
                "n_layers": self.layers_on(m.device.name), "mapped_bytes": m.mapped_bytes,
                "weight_bytes": m.weight_bytes, "kv_bytes": m.kv_bytes,
                "arena_bytes": m.arena_bytes, "ring_bytes": m.ring_bytes,
                "staging_bytes": m.staging_bytes, "free_bytes": self.free[m.device.name],
                "left_bytes": left[m.device.name], "total_bytes": m.device.memory_bytes,
                "taken_bytes": self.taken.get(m.device.name), "is_host": m.device.is_host,
                "is_pretend": m.device.is_pretend,
            } for m in self.devices],
            "layers": [d.name for d in main.layers], "embeddings": embed, "head": head,
            "layer_bytes": layer_bytes(main), "end_bytes": end_bytes(main),
            "n_cpu_moe": main.choice.n_cpu_moe,
            "streamed_from_n_tokens": main.streamed.n_tokens if main.streamed else None,
            "decode": _facts(self.decode), "prefill": _facts(self.prefill),
            "files": [{"key": key, "name": self.files[key], "mapped_bytes": n.mapped,
                       "copied_bytes": n.copied}
                      for key, n in self.blueprint.file_bytes().items()],
            "graphs": [{
                "name": name, "layers": [d.name for d in b.layers],
                "needed_bytes": {m.device.name: m.needed_bytes for m in b.memory.devices},
                "decode": _facts(self.predicted[name][0]),
                "prefill": _facts(self.predicted[name][1]),
            } for name, b in self.blueprint.members.items()],
            "resolved": {name: dict(each) for name, each in self.resolved.items()},
        }

    def svg(self) -> str:
        """A picture of layers over devices."""
        title = f"context of {self.context_size:,} tokens"
        left = self.left
        lanes = [picture.Lane(m, self.layers_on(m.device.name), self.free[m.device.name],
                              left[m.device.name]) for m in self.devices]
        return picture.svg(self.title, title, lanes, self._cells(), [*self.speed(), *self.totals()])

    def _cells(self) -> list[picture.Cell]:
        """Embeddings, each layer and the head of every graph."""
        cells: list[picture.Cell] = []
        for name, made in self.blueprint.members.items():
            (embed, head), of = made.ends(), "" if name == MAIN else f"{name}: "
            cells += [picture.Cell(embed, "E", f"{of}embeddings"),
                      *(picture.Cell(d.name, str(i), f"{of}layer {i}")
                        for i, d in enumerate(made.layers)),
                      picture.Cell(head, "H", f"{of}output head")]
        return cells

    def speed(self) -> list[str]:
        """The predictions: a line for each kind of step of each graph."""
        return [f"{'' if graph == MAIN else f'{graph} '}{name}: {p.per_second:,.1f} tokens/s "
                f"predicted, bound by {p.bound} "
                f"({p.terms.get(p.bound, 0.0) / (p.seconds or 1):.0%} of the time)"
                for graph, pair in self.predicted.items()
                for name, p in zip(("decode", "prefill"), pair, strict=True)]

    def totals(self) -> list[str]:
        """Where there are several graphs, a line that says what each takes; where there are several
        files, a line that says how many bytes come from each."""
        lines = []
        if len(self.blueprint.members) > 1:
            taken = {name: sum(m.mapped_bytes + m.needed_bytes for m in b.memory.devices)
                     for name, b in self.blueprint.members.items()}
            lines.append("each graph alone takes: " + _listed(taken))
        sizes = self.blueprint.file_bytes()
        if len(sizes) > 1:
            lines.append("weights by file: " + _listed({self.files[k]: n.mapped + n.copied
                                                  for k, n in sizes.items()}))
        return lines


def _listed(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {size_text(n)}" for name, n in sizes.items())


def _per_second(prediction: Prediction) -> float:
    """Tokens a second as JSON has them: 0 where a step computes nothing."""
    return prediction.per_second if math.isfinite(prediction.per_second) else 0.0


def _facts(prediction: Prediction) -> dict[str, Any]:
    return {"n_tokens": prediction.n_tokens, "seconds": prediction.seconds,
            "tokens_per_second": _per_second(prediction), "bound": prediction.bound,
            "terms": dict(prediction.terms)}
