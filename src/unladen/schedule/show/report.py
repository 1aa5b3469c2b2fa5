"""What a plan comes to, for people and programs: bytes by device, tokens per second, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from unladen.schedule import fit
from unladen.schedule.blueprint import Blueprint
from unladen.schedule.place import numbers
from unladen.schedule.search.cost import Prediction


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A blueprint with what is free and what is predicted. Nothing has been allocated. A notebook
    shows it as a picture."""

    title: str
    context_size: int
    blueprint: Blueprint
    free: Mapping[str, int]
    decode: Prediction
    prefill: Prediction

    @classmethod
    def of(cls, blueprint: Blueprint, title: str, context_size: int,
           taken: Mapping[str, int] = MappingProxyType({})) -> PlanReport:
        """The report on ``blueprint``, a plan of the model ``title``, which has ``taken`` bytes by
        device by now."""
        free = {name: n + taken.get(name, 0)
                for name, n in fit.free_bytes(blueprint.devices).items()}
        return cls(title, context_size, blueprint, free, *blueprint.predict())

    def __repr__(self) -> str:
        state = "fits" if self.fits() else "doesn't fit"
        return (f"<PlanReport of {self.title!r}: {state}, {numbers(self.blueprint.layers)} layers, "
                f"{self.context_size} tokens of context, {self.decode.per_second:.3g} tokens/s "
                "predicted>")

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        return self.svg()

    @property
    def devices(self) -> Sequence[fit.DeviceMemory]:
        """Bytes on each device that has something to hold."""
        return self.blueprint.memory.devices

    @property
    def left(self) -> Mapping[str, int]:
        """By device, the bytes that stay free; below 0 where it is too small."""
        return self.blueprint.memory.left(self.free)

    def layers_on(self, device: str) -> int:
        """How many layers stand on ``device``."""
        return sum(d.name == device for d in self.blueprint.layers)

    def fits(self) -> bool:
        """Whether every device is large enough."""
        return all(n >= 0 for n in self.left.values())

    def facts(self) -> dict[str, Any]:
        """All of it, for JSON."""
        left, (embed, head), streamed = self.left, self.blueprint.ends(), self.blueprint.streamed
        return {
            "model": self.title, "context_size": self.context_size, "fits": self.fits(),
            "devices": [{
                "name": m.device.name, "description": m.device.description,
                "n_layers": self.layers_on(m.device.name), "mapped_bytes": m.mapped_bytes,
                "weight_bytes": m.weight_bytes, "kv_bytes": m.kv_bytes,
                "arena_bytes": m.arena_bytes, "ring_bytes": m.ring_bytes,
                "staging_bytes": m.staging_bytes, "free_bytes": self.free[m.device.name],
                "left_bytes": left[m.device.name],
            } for m in self.devices],
            "layers": [d.name for d in self.blueprint.layers], "embeddings": embed, "head": head,
            "n_cpu_moe": self.blueprint.choice.n_cpu_moe,
            "streamed_from_n_tokens": streamed.n_tokens if streamed else None,
            "decode": _facts(self.decode), "prefill": _facts(self.prefill),
        }

    def svg(self) -> str:
        """A picture of layers over devices."""
        from unladen.schedule.show.picture import svg  # few want one
        return svg(self)

    def speed(self) -> list[str]:
        """What is predicted, a line for each kind of step."""
        return [f"{name}: {p.per_second:,.1f} tokens/s predicted, bound by {p.bound} "
                f"({p.terms.get(p.bound, 0.0) / (p.seconds or 1):.0%} of the time)"
                for name, p in (("decode", self.decode), ("prefill", self.prefill))]


def _facts(prediction: Prediction) -> dict[str, Any]:
    return {"n_tokens": prediction.n_tokens, "seconds": prediction.seconds,
            "tokens_per_second": prediction.per_second, "bound": prediction.bound,
            "terms": dict(prediction.terms)}
