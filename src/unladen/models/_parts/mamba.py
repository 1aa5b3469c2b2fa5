"""Layers of state spaces: Mamba (Gu and Dao 2023) and Mamba 2 (Dao and Gu 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from unladen.errors import GGUFError
from unladen.gguf import HParams
from unladen.graph.builder import GraphBuilder
from unladen.graph.graph import Value, Weight
from unladen.models._parts.layers import Layers, n_columns


@dataclass(frozen=True, slots=True)
class Ssm:
    """The ``ssm.*`` keys: channels, states of each, rank of dt or heads, groups, taps."""

    inner: int
    state: int
    rank: int
    groups: int
    taps: int

    @classmethod
    def read(cls, hp: HParams) -> Ssm:
        """Raises :class:`GGUFError`."""
        ssm = cls(hp.int("ssm.inner_size", minimum=1), hp.int("ssm.state_size", minimum=1),
                  hp.int("ssm.time_step_rank", minimum=1), hp.int("ssm.group_count", 0) or 1,
                  hp.int("ssm.conv_kernel", minimum=2))
        if ssm.inner % ssm.groups:
            raise GGUFError(f"a state space can't have {ssm}", path=hp.path,
                            hint="the metadata is damaged: convert or fetch the file again")
        return ssm

    def check_heads(self, hp: HParams) -> None:
        """Raise :class:`GGUFError` where ``rank`` can't be the number of heads."""
        if self.inner % self.rank or self.rank % self.groups:
            raise GGUFError(f"{self} can't have {self.rank} heads", path=hp.path,
                            hint="the metadata is damaged: convert or fetch the file again")


def mamba(model: Layers, g: GraphBuilder, x: Value) -> Value:
    """The output of a Mamba layer for x f32 [T, n_embd]. dt, B and C are normalized where the file
    has weights for it, or ``ssm.dt_b_c_rms`` says so."""
    ssm, t = Ssm.read(model.hparams), model.tensors
    x, z = model.stacked(g, x, "ssm_in", [ssm.inner, ssm.inner], "ssm_in")
    (x,) = convolved(model, g, "ssm_conv1d", ssm.taps, [x])
    parts = model.stacked(g, x, "ssm_x", [ssm.rank, ssm.state, ssm.state], "ssm_x")
    dt, b, c = (_small_norm(model, g, part, f"ssm_{name}_norm")
                for part, name in zip(parts, ("dt", "b", "c"), strict=True))
    (dt,) = model.linear(g, dt, {"ssm_dt": ssm.inner}, "ssm_dt")
    a = t.weight(model.name(g, "ssm_a"), ssm.inner, ssm.state)
    y = scan(model, g, (x, dt, b, c), a, 1)
    y = g.one("glu", z, y, name="ssm_gated", attrs={"act": "silu"})
    return model.linear(g, y, {"ssm_out": model.n_embd}, "ssm_out")[0]


def mamba2(model: Layers, g: GraphBuilder, x: Value) -> Value:
    """The output of a Mamba 2 layer for x f32 [T, n_embd]."""
    ssm, t = Ssm.read(model.hparams), model.tensors
    ssm.check_heads(model.hparams)
    n_shared = ssm.groups * ssm.state
    rows = [ssm.inner, ssm.inner, n_shared, n_shared, ssm.rank]
    whole = t.weight(model.name(g, "ssm_in.weight"), sum(rows), n_columns(x))
    weights: dict[str, Weight] = {"b4": t.weight(model.name(g, "ssm_dt.bias"), ssm.rank)}
    for i, n in enumerate(rows):
        weights[f"w{i}"] = whole.rows(sum(rows[:i]), n)
    z, *rest, dt = g.add("linear", (x,), name="ssm_in", weights=weights)
    x, b, c = convolved(model, g, "ssm_conv1d", ssm.taps, rest)
    y = scan(model, g, (x, dt, b, c), t.weight(model.name(g, "ssm_a"), ssm.rank, 1), ssm.groups)
    y = g.one("glu", z, y, name="ssm_gated", attrs={"act": "silu"})
    size = ssm.inner // ssm.groups
    norm = t.optional(model.name(g, "ssm_norm.weight"), ssm.groups, size)
    if norm is not None:
        y = g.one("rms_norm", y, name="ssm_norm", weights={"w": norm},
                  attrs={"eps": model.eps, "group": size})
    return model.linear(g, y, {"ssm_out": model.n_embd}, "ssm_out")[0]


def scan(model: Layers, g: GraphBuilder, inputs: tuple[Value, Value, Value, Value], a: Weight,
         n_groups: int) -> Value:
    """The selective scan over x, dt (before its softplus), B and C."""
    x, dt, b, c = inputs
    name, n_heads = model.name(g, "ssm_d"), n_columns(dt)
    known = model.tensors.shape(name)
    d = model.tensors.weight(name, *(known if known == (n_heads, 1) else (n_heads,)))
    dt = g.one("activation", dt, name="ssm_step", attrs={"act": "softplus"})
    return g.one("ssm_scan", x, dt, b, c, name="ssm_scan", weights={"a": a, "d": d},
                 attrs={"n_groups": n_groups})


def convolved(model: Layers, g: GraphBuilder, part: str, n_taps: int, xs: list[Value],
              act: str = "silu") -> list[Value]:
    """Each of ``xs`` convolved with its rows of the weight ``part``, which stacks the rows of all.
    """
    full, sizes = model.name(g, part), [n_columns(x) for x in xs]
    shape = model.tensors.shape(full + ".weight")
    known = shape if shape == (sum(sizes), 1, n_taps) else (sum(sizes), n_taps)
    taps = replace(model.tensors.weight(full + ".weight", *known), shape=(sum(sizes), n_taps))
    bias = model.tensors.optional(full + ".bias", sum(sizes))
    ys, first = [], 0
    for i, (x, n) in enumerate(zip(xs, sizes, strict=True)):
        weights = {"w": taps.rows(first, n)} | ({} if bias is None else {"b": bias.rows(first, n)})
        name = part if len(xs) == 1 else f"{part}.{i}"
        ys.append(g.one("conv1d", x, name=name, weights=weights, attrs={"act": act}))
        first += n
    return ys


def _small_norm(model: Layers, g: GraphBuilder, x: Value, part: str) -> Value:
    full = model.name(g, part)
    if full in model.tensors or full + ".weight" in model.tensors:
        return model.norm(g, x, part)
    if model.hparams.bool("ssm.dt_b_c_rms", False):
        return model.plain_norm(g, x, part)
    return x
