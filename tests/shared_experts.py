"""Small models whose layers have routed experts, and experts that every token shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from factory import Shape, write_model
from schedule.paper import graph_of, paper_file
from unladen.gguf import TensorInfo
from unladen.gguf.tensors import Part
from unladen.graph.graph import Graph

SHARED_EXPERTS = Shape("qwen2moe", n_layers=3, n_embd=64, n_ff=96, n_experts=8, n_used=3)
SHARED_FF = 128


def _keys(shape: Shape) -> dict[str, Any]:
    return {f"{shape.arch}.expert_feed_forward_length": shape.n_ff,
            f"{shape.arch}.expert_shared_feed_forward_length": SHARED_FF}


def _shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    n = shape.n_embd
    of_layer = {"ffn_gate_shexp": (SHARED_FF, n), "ffn_up_shexp": (SHARED_FF, n),
                "ffn_down_shexp": (n, SHARED_FF), "ffn_gate_inp_shexp": (n,)}
    return {f"blk.{i}.{name}.weight": size for i in range(shape.n_layers)
            for name, size in of_layer.items()}


def write(path: Path, rng: np.random.Generator, shape: Shape = SHARED_EXPERTS,
          quant: str = "F32") -> Path:
    """A model file."""
    return write_model(path, rng, shape, quant=quant, keys=_keys(shape), shapes=_shapes(shape))


def on_paper(shape: Shape = SHARED_EXPERTS, *, gated: bool = True) -> Graph:
    """The graph of such a model, without a file. ``gated``: its shared experts have a gate."""
    file = paper_file(shape, "F32")
    file.metadata |= _keys(shape)
    for name, size in _shapes(shape).items():
        if not gated and "ffn_gate_inp_shexp" in name:
            continue
        file.tensors[name] = TensorInfo(name, size, "F32", 4 * int(np.prod(size)), 0, 0,
                                        Part("on-paper.gguf", "little", None))
    return graph_of(file)
