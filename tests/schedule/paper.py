"""Models on paper: a tensor table without a file, and pretended devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from factory import Shape, metadata, tensors
from unladen.backends.base import Device, KVLayout
from unladen.gguf import TensorInfo
from unladen.gguf.tensors import Part
from unladen.graph.graph import Graph
from unladen.models import load_architecture
from unladen.quants import get
from unladen.types import MAIN, Limits


@dataclass
class PaperFile:
    """A stand-in for a model file with all that an architecture reads. The tensors' bytes are zeros
    that take no memory."""

    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]
    path: Path = field(default=Path("on-paper.gguf"))
    key: str = MAIN

    def data(self, name: str) -> npt.NDArray[np.uint8]:
        return np.broadcast_to(np.uint8(0), self.tensors[name].nbytes)


def paper_file(shape: Shape, quant: str | Callable[[str], str]) -> PaperFile:
    """A model of ``shape`` whose matrices are in ``quant`` (a format, or a function from a tensor's
    name to it); vectors and routers are in F32."""
    infos = {}
    for name, size in tensors(shape).items():
        kind = quant if isinstance(quant, str) else quant(name)
        if len(size) == 1 or "ffn_gate_inp" in name:
            kind = "F32"
        n = int(np.prod(size, dtype=object)) // size[-1] * get(kind).row_bytes(size[-1])
        infos[name] = TensorInfo(name, size, kind, n, 0, 0, Part("on-paper.gguf", "little", None))
    return PaperFile({"general.architecture": shape.arch} | metadata(shape), infos)


def graph_of(file: PaperFile) -> Graph:
    return load_architecture(file).build()  # type: ignore[arg-type]  # it has what is read


def random_shape(rng: np.random.Generator) -> Shape:
    """A random geometry that an architecture takes, from tiny to 100 billion parameters."""
    arch = str(rng.choice(["llama", "qwen2", "qwen3", "qwen3moe", "gpt2"]))
    head = int(rng.choice([32, 64, 128]))
    n_kv_heads = int(rng.choice([1, 2, 4, 8]))
    n_heads = n_kv_heads * (1 if arch == "gpt2" else int(rng.choice([1, 2, 4])))
    n_embd = max(256, 256 * int(rng.integers(1, 17))) if arch != "gpt2" else n_heads * head
    return Shape(arch, n_layers=int(rng.integers(1, 9)), n_embd=n_embd, n_heads=n_heads,
                 n_kv_heads=n_kv_heads, k_dim=0 if arch == "gpt2" else head, n_rot=head,
                 n_ff=256 * int(rng.integers(1, 65)), n_vocab=int(rng.integers(300, 150000)),
                 n_ctx=int(rng.choice([512, 4096, 32768])), tied=bool(rng.integers(2)),
                 n_experts=int(rng.choice([4, 16, 64])) if arch == "qwen3moe" else 0)


def random_devices(rng: np.random.Generator, nbytes: int) -> list[Device]:
    """Random devices: usually a host, and one to four others that are together about as large as
    the model.
    """
    n = int(rng.integers(1, 5))
    host = Device("null:9", "pretended host", 8 * nbytes + (64 << 30), 10 ** rng.uniform(9.5, 11.5),
                  10 ** rng.uniform(10, 12.5), is_host=True, is_pretend=True)
    devices = [Device(f"null:{i}", "pretended", int(nbytes * rng.uniform(0.1, 2.5) / n) + (1 << 20),
                      10 ** rng.uniform(10.5, 12.8), 10 ** rng.uniform(11, 14.5),
                      link_bandwidth=10 ** rng.uniform(9, 11),
                      link_latency_s=10 ** rng.uniform(-6, -4),
                      launch_s=10 ** rng.uniform(-6, -4.5), is_pretend=True) for i in range(n)]
    return [*devices, host] if rng.random() < 0.85 else devices


def sizes(rng: np.random.Generator, shape: Shape) -> tuple[Limits, KVLayout]:
    """A step's largest size and a cache."""
    block = int(rng.choice([16, 32]))
    n_blocks = -(-int(rng.integers(64, shape.n_ctx)) // block)
    n_tokens = int(rng.choice([1, 32, 512]))
    kind = str(rng.choice(["F16", "F32", "Q8_0"]))
    return (Limits(n_tokens, min(n_tokens, 8), 1, n_blocks, n_blocks, block),
            KVLayout(block, n_blocks, kind, kind))
