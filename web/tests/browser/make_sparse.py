"""Writes a GGUF file with the shapes of an 8B model and no weights: a plan reads no more of it.

    python make_sparse.py FILE

The file is sparse: it says that it has 4.9 GB and takes a few kB of the disk.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

N_LAYERS, N_EMBD, N_FF, N_KV, N_VOCAB = 32, 4096, 14336, 1024, 128256
Q4_K, Q6_K, F32 = (12, 144 / 256), (14, 210 / 256), (0, 4.0)
U32, FLOAT, STRING, ALIGNMENT = 4, 6, 8, 32


def text(value: str) -> bytes:
    """A string of a GGUF file."""
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key: str, value: int | float | str) -> bytes:
    """A key of the metadata with its value."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    kind, form = (FLOAT, "<If") if isinstance(value, float) else (U32, "<II")
    return text(key) + struct.pack(form, kind, value)


METADATA: dict[str, int | float | str] = {
    "general.architecture": "llama", "general.name": "Swallow 8B", "general.file_type": 15,
    "llama.block_count": N_LAYERS, "llama.embedding_length": N_EMBD,
    "llama.feed_forward_length": N_FF, "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8, "llama.context_length": 32768,
    "tokenizer.ggml.model": "none", "llama.vocab_size": N_VOCAB, "llama.rope.freq_base": 500000.0,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
}
LAYER = {
    "attn_norm": ((N_EMBD,), F32), "ffn_norm": ((N_EMBD,), F32),
    "attn_q": ((N_EMBD, N_EMBD), Q4_K), "attn_k": ((N_EMBD, N_KV), Q4_K),
    "attn_v": ((N_EMBD, N_KV), Q6_K), "attn_output": ((N_EMBD, N_EMBD), Q4_K),
    "ffn_gate": ((N_EMBD, N_FF), Q4_K), "ffn_up": ((N_EMBD, N_FF), Q4_K),
    "ffn_down": ((N_FF, N_EMBD), Q6_K),
}
TENSORS = {
    "token_embd": ((N_EMBD, N_VOCAB), Q4_K), "output_norm": ((N_EMBD,), F32),
    "output": ((N_EMBD, N_VOCAB), Q6_K),
    **{f"blk.{i}.{name}": what for i in range(N_LAYERS) for name, what in LAYER.items()},
}


def main(path: Path) -> None:
    """Write the header to ``path``, and nothing where the weights would be."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(TENSORS), len(METADATA))
    head += b"".join(entry(key, value) for key, value in METADATA.items())
    offset = 0
    for name, (shape, (kind, bytes_each)) in TENSORS.items():
        head += text(f"{name}.weight") + struct.pack("<I", len(shape))
        head += struct.pack(f"<{len(shape)}QIQ", *shape, kind, offset)
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        offset += -(-int(count * bytes_each) // ALIGNMENT) * ALIGNMENT
    head += bytes(-len(head) % ALIGNMENT)
    with path.open("wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)


main(Path(sys.argv[1]))
