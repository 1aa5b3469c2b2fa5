"""Decides which tensor gets which block format.

The rules are those of llama.cpp (``src/llama-quant.cpp``), so that a mix of the same name means the
same here: same formats, tensor by tensor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from unladen.gguf import HParams, TensorInfo
from unladen.models import Architecture, named, registry
from unladen.quantizing.mixes import Mix
from unladen.quants import get

_KEPT_NAMES: Final = {"position_embd.weight", "token_types.weight"}
"""Tensors that keep their type, by name."""
_KEPT_PARTS: Final = (
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel",
    "per_layer_model_proj", "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight",
    "indexer.q_proj.weight", "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight",
    "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight", "time_mix_v2.weight",
    "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight",
    "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight", "attn_rel_b.weight", ".position_embd", "sam.pos_embd",
    "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger", "a.rvq.codebook",
    "mm.a.code_embd")
"""Parts of names of tensors that keep their type."""
_TOKEN_EMBEDDINGS: Final = ("token_embd.weight", "per_layer_token_embd.weight")
_KINDS: Final = (("attn_qkv.weight", "qkv"), ("attn_kv_b.weight", "kv_b"),
                 ("attn_v.weight", "v"), ("attn_k.weight", "k"), ("attn_q.weight", "q"),
                 ("attn_output.weight", "attn_output"), ("ffn_up", "up"), ("ffn_gate", "gate"),
                 ("ffn_down", "down"))
"""Parts of names, and the role that each means in the rules; the first that is found decides."""
_VALUES: Final = ("v", "qkv", "kv_b")
"""Roles of tensors that compute attention's values."""
_FALLBACKS: Final = {"IQ4_XS": "IQ4_NL", "Q2_K": "Q4_0", "Q3_K": "Q4_0", "Q4_K": "Q5_0",
                     "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
"""The format that replaces another where rows aren't a multiple of its block of 256."""


def is_kept(tensor: TensorInfo) -> bool:
    """Whether ``tensor`` keeps its type: vectors, norms, and tensors that are small or sensitive to
    rounding."""
    name = tensor.name
    n_dims = max((i + 1 for i, n in enumerate(reversed(tensor.shape)) if n > 1), default=1)
    return (n_dims < 2 or not name.endswith("weight") or name in _KEPT_NAMES
            or any(part in name for part in _KEPT_PARTS))


def is_token_embedding(name: str) -> bool:
    """Whether the tensor ``name`` is a table whose rows are looked up by token."""
    return name in _TOKEN_EMBEDDINGS


def kind_of(name: str) -> str:
    """The role of a tensor in the rules: ``"down"``, ``"v"``, ``"output"`` and so on; ``""`` for a
    tensor without one."""
    if name == "output.weight":
        return "output"
    if is_token_embedding(name):
        return "token_embd"
    return next((kind for part, kind in _KINDS if part in name), "")


def layer_of(name: str) -> int:
    """The layer that a tensor belongs to; -1 if none."""
    found = re.match(r"blk\.(\d+)\.", name)
    return int(found[1]) if found else -1


def file_order(tensors: Sequence[TensorInfo]) -> list[TensorInfo]:
    """The order in which the rules count, and in which tensors are written: by layer, then name."""
    return sorted(tensors, key=lambda t: (layer_of(t.name), t.name.encode()))


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a model that the rules depend on."""

    n_layers: int
    n_experts: int
    n_gqa: int
    """Query heads per key head in the first layer; 0 without attention."""
    falcon: bool
    is_70b: bool

    @classmethod
    def of(cls, hparams: HParams) -> Traits:
        """The traits of the model with ``hparams``."""
        n_layers = hparams.int("block_count", 0)
        n_heads = _first_layer(hparams, "attention.head_count", n_layers, 0)
        n_kv_heads = _first_layer(hparams, "attention.head_count_kv", n_layers, n_heads)
        arch = named(hparams.arch) or registry().get(hparams.arch, Architecture)
        return cls(n_layers, hparams.int("expert_count", 0),
                   n_heads // n_kv_heads if n_kv_heads else 0, arch.mixes_as_falcon,
                   n_layers == arch.n_layers_70b > 0
                   and not (arch.grouped_70b and n_heads == n_kv_heads))


def _first_layer(hparams: HParams, suffix: str, n_layers: int, default: int) -> int:
    if suffix not in hparams:
        return default
    if hparams.is_array(suffix):
        return next(iter(hparams.per_layer(suffix, n_layers)), default)
    return hparams.int(suffix)


def more_bits(layer: int, n_layers: int) -> bool:
    """Whether ``layer`` is one that the mixes called ``_M`` give more bits: the first and the last
    eighth of the layers, and every third between."""
    eighth = n_layers // 8
    return layer < eighth or layer >= 7 * n_layers // 8 or (layer - eighth) % 3 == 2


@dataclass
class Rules:
    """The formats of a mix for one model. Tensors must come in :func:`file_order`: some rules
    count them."""

    mix: Mix
    traits: Traits
    n_values: int
    """How many tensors compute values (``attn_v`` and the like)."""
    tied: bool
    """Whether the token embeddings are also the output matrix."""
    has_imatrix: bool
    _seen: dict[str, int] = field(default_factory=dict)

    def choose(self, tensor: TensorInfo) -> str:
        """The format of ``tensor``. Its rows may not be a multiple of the block: see
        :func:`fitting`."""
        kind, base = kind_of(tensor.name), self.mix.base
        if kind == "output" or (self.tied and kind == "token_embd"):
            return self._output(tensor)
        if self.mix.name == "MXFP4_MOE":
            return "MXFP4" if len(tensor.shape) > 2 and tensor.shape[-3] > 1 else "Q8_0"
        if kind == "token_embd":
            return base
        if kind in _VALUES:
            return self._values(self._count("values"))
        if kind == "k":
            return "Q8_0" if self.traits.n_experts == 8 else base
        if kind == "down":
            return self._down(self._layer(tensor.name))
        if kind == "attn_output":
            return self._attn_output()
        return base

    def _count(self, kind: str) -> int:
        n = self._seen.get(kind, 0)
        self._seen[kind] = n + 1
        return n

    def _layer(self, name: str) -> int:
        """The position of a down projection: its layer where the model has experts, else the number
        of down projections before it."""
        n = self._count("down")
        return layer_of(name) if self.traits.n_experts > 1 else n

    def _output(self, tensor: TensorInfo) -> str:
        base = self.mix.base
        if (self.mix.name == "MXFP4_MOE" or self.traits.falcon or base == "Q8_0"
                or tensor.shape[-1] % get(base).block_size):
            return "Q8_0"
        return "Q6_K"

    def _values(self, i: int) -> str:
        name, chosen, grouped = self.mix.name, self.mix.base, self.traits.n_gqa >= 4
        if name == "Q2_K":
            chosen = "Q4_K" if grouped else "Q3_K"
        elif name == "Q2_K_S" and grouped:
            chosen = "Q4_K"
        elif name == "Q3_K_M":
            chosen = "Q5_K" if i < 2 else "Q4_K"
        elif name == "Q3_K_L" or (name in ("IQ4_NL", "IQ4_XS") and grouped):
            chosen = "Q5_K"
        elif name in ("Q4_K_M", "Q5_K_M") and more_bits(i, self.n_values):
            chosen = "Q6_K"
        elif name == "Q4_K_S" and i < 4:
            chosen = "Q5_K"
        if self.traits.is_70b and chosen in ("Q3_K", "Q4_K"):
            chosen = "Q5_K"
        return "Q8_0" if self.traits.n_experts == 8 else chosen

    def _down(self, layer: int) -> str:
        name, base, n, falcon = (self.mix.name, self.mix.base, self.traits.n_layers,
                                 self.traits.falcon)
        early = layer < n // 8
        if name == "Q2_K":
            return "Q3_K"
        if name == "Q2_K_S":
            return "Q4_K" if early else base
        if name == "Q3_K_M":
            if layer < n // 16:
                return "Q5_K"
            return "Q4_K" if not falcon or more_bits(layer, n) else "Q3_K"
        if name == "Q3_K_L":
            return "Q4_K" if falcon else "Q5_K"
        if name == "Q4_K_M" and falcon and layer >= n // 16:
            return "Q5_K" if more_bits(layer, n) else "Q4_K"
        if name == "Q4_K_M":
            return "Q6_K" if falcon or more_bits(layer, n) else base
        if name in ("IQ4_NL", "IQ4_XS"):
            return "Q5_K" if early and not self.has_imatrix else base
        if name == "Q5_K_M":
            return "Q6_K" if more_bits(layer, n) else base
        if name == "Q4_K_S":
            return "Q5_K" if early and not falcon else base
        if name in ("Q4_0", "Q5_0") and self.has_imatrix and early:
            return "Q4_1" if name == "Q4_0" else "Q5_1"
        return base

    def _attn_output(self) -> str:
        name, base = self.mix.name, self.mix.base
        if self.traits.falcon:
            return "Q4_K" if name == "Q3_K_L" else base
        if self.traits.n_experts == 8:
            return "Q5_K" if name in ("Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M", "IQ4_NL",
                                      "IQ4_XS") else base
        return {"Q2_K": "Q3_K", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K"}.get(name, base)


def fitting(chosen: str, n_cols: int) -> str:
    """``chosen``, or the format that replaces it where rows of ``n_cols`` aren't a whole number of
    its blocks."""
    for quant in (chosen, _FALLBACKS.get(chosen, chosen)):
        if n_cols % get(quant).block_size == 0:
            return quant
    return "F16"
