"""Writes the tables of docs/concepts/memory.md: memory of published geometries by quantization.

``python tools/gen_vram_table.py`` writes them; with ``--check`` it fails if they are out of date.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "src"), str(ROOT / "tests")]

from factory import Shape  # noqa: E402
from pages import write_or_check  # noqa: E402
from schedule.paper import paper_file  # noqa: E402
from unladen.assembly.setup import blueprint_for  # noqa: E402
from unladen.models import load_architecture  # noqa: E402
from unladen.schedule.fit import DeviceMemory  # noqa: E402
from unladen.schedule.options import PlanOptions  # noqa: E402
from unladen.schedule.place import PlaceOptions  # noqa: E402
from unladen.schedule.show.pretend import pretended  # noqa: E402
from unladen.types import MAIN  # noqa: E402

DOC = ROOT / "docs/concepts/memory.md"
GB = 10**9
"""The tables use decimal gigabytes."""
BATCH = 512
"""Tokens of a step, for the size of the arena."""
CONTEXTS = (2048, 4096, 8192, 32768)
QUANTS = ("Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "F16")


def llama(n_layers: int, n_embd: int, n_heads: int, n_kv_heads: int, n_ff: int, n_vocab: int, *,
          tied: bool = False) -> Shape:
    return Shape("llama", n_layers=n_layers, n_embd=n_embd, n_heads=n_heads, n_kv_heads=n_kv_heads,
                 n_ff=n_ff, n_vocab=n_vocab, n_ctx=131072, tied=tied)


MODELS: Mapping[str, tuple[str, Shape, tuple[float, ...]]] = {
    # The geometry, and the rule of thumb for each of QUANTS in GB.
    "1B": ("Llama 3.2 1B", llama(16, 2048, 32, 8, 8192, 128256, tied=True),
           (.9, 1.0, 1.2, 1.5, 2.5)),
    "3B": ("Llama 3.2 3B", llama(28, 3072, 24, 8, 8192, 128256, tied=True),
           (2.2, 2.5, 2.9, 3.6, 6.5)),
    "7B": ("Llama 2 7B", llama(32, 4096, 32, 32, 11008, 32000), (4.5, 5.1, 5.9, 7.5, 14)),
    "13B": ("Llama 2 13B", llama(40, 5120, 40, 40, 13824, 32000), (8, 9.2, 10.5, 13.5, 26)),
    "30B": ("LLaMA 30B", llama(60, 6656, 52, 52, 17920, 32000), (19, 22, 25, 32, 60)),
    "70B": ("Llama 3.3 70B", llama(80, 8192, 64, 8, 28672, 128256), (40, 46, 53, 68, 140)),
}


def recipe(name: str, shape: Shape) -> Callable[[str], str]:
    """The block format of each tensor in the usual mixture ``name``: the value and down projections
    of the first, the last and every third layer between have more bits, and so has the head."""
    base = {"Q4_K_M": "Q4_K", "Q5_K_M": "Q5_K"}.get(name, name)
    n = shape.n_layers

    def quant(tensor: str) -> str:
        if base == name:
            return name
        if tensor == "output.weight" or (shape.tied and tensor == "token_embd.weight"):
            return "Q6_K"
        found = re.fullmatch(r"blk\.(\d+)\.(attn_v|ffn_down)\.weight", tensor)
        if found is None:
            return base
        layer = int(found[1])
        more = layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2
        if more:
            return "Q6_K"
        # With eight query heads per key head there are few values, so they get more bits.
        few = found[2] == "attn_v" and shape.n_heads == 8 * shape.n_kv_heads and n == 80
        return "Q5_K" if few else base
    return quant


def memory(shape: Shape, quant: str, context: int, kv_type: str = "f16") -> DeviceMemory:
    """The memory of the whole model on one device that is large enough."""
    architecture = load_architecture(paper_file(shape, recipe(quant, shape)))
    options = PlanOptions(pretended("900GB"), PlaceOptions(n_gpu_layers="all"))
    blueprint, _ = blueprint_for({MAIN: architecture}, options, context_size=context,
                                 batch_size=BATCH, max_seqs=1, kv_type=kv_type,
                                 cache_tokens=None)
    (device,) = blueprint.memory.devices
    return device


def tables() -> dict[str, str]:
    """The generated parts by name."""
    weights = ["| model | " + " | ".join(QUANTS) + " |", "|---|" + "---:|" * len(QUANTS)]
    for size, (name, shape, quoted) in MODELS.items():
        cells = []
        for quant, rule in zip(QUANTS, quoted, strict=True):
            m = memory(shape, quant, CONTEXTS[0])
            cells.append(f"{(m.weight_bytes + m.arena_bytes) / GB:.2f} ({rule:g})")
        weights.append(f"| {size} ({name}) | " + " | ".join(cells) + " |")
    head = " | ".join(f"{c}: f16 / q8_0" for c in CONTEXTS)
    caches = [f"| model | arena | {head} |", "|---|" + "---:|" * (len(CONTEXTS) + 1)]
    for size, (_, shape, _) in MODELS.items():
        kv = [" / ".join(f"{memory(shape, 'F16', c, t).kv_bytes / GB:.2f}" for t in ("f16", "q8_0"))
              for c in CONTEXTS]
        arena = memory(shape, "F16", CONTEXTS[0]).arena_bytes / GB
        caches.append(f"| {size} | {arena:.2f} | " + " | ".join(kv) + " |")
    return {"weights": "\n".join(weights), "caches": "\n".join(caches)}


def filled(text: str) -> str:
    """``text`` with each generated part replaced by the present one."""
    for name, table in tables().items():
        pattern = rf"(<!-- generated: {name} -->\n).*?(\n<!-- end -->)"
        text, n = re.subn(pattern, lambda m, t=table: m[1] + t + m[2], text, flags=re.DOTALL)
        assert n == 1, f"{DOC} has {n} places for {name}"
    return text


def main() -> int:
    return write_or_check({DOC: filled(DOC.read_text(encoding="utf-8"))}, "gen_vram_table.py")


if __name__ == "__main__":
    sys.exit(main())
