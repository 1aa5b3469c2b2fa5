"""Every command with files without tensors, or empty files: it gives data, or exactly one error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.conftest import Run
from unladen import Model
from unladen.errors import UnladenError
from unladen.gguf import GGUFWriter

SIZES = {"block_count": 2, "context_length": 64, "embedding_length": 32, "feed_forward_length": 64,
         "attention.head_count": 4, "attention.layer_norm_rms_epsilon": 1e-5}
COMMANDS: dict[str, list[str]] = {
    "show": [], "show --json": ["--json"], "show --tensors": ["--tensors"], "plan": [],
    "run": ["hi", "-n", "1"], "bench": ["-p", "4", "-n", "1", "-r", "1"], "tokenize": ["ab"],
    "perplexity": ["-f", "TEXT", "--chunk", "4"], "quantize": ["TARGET", "Q8_0"],
    "quantize --dry-run": ["TARGET", "Q4_K_M", "--dry-run"]}


def bare(path: Path) -> None:
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(16))


def written(arch: str = "llama", keys: bool = True, tensors: int = 0, **more: Any
            ) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        writer = GGUFWriter(path, arch)
        for key, value in SIZES.items() if keys else ():
            writer.set(f"{arch}.{key}", value)
        for key, value in more.items():
            writer.set(key.replace("__", "."), value)
        names = ["token_embd.weight", "output_norm.weight"][:tensors]
        for name in names:
            writer.add_tensor(name, np.ones((4, 32) if "embd" in name else (32,), np.float32))
        writer.write()
    return write


FILES: dict[str, Callable[[Path], None]] = {
    "bare": bare, "name": written(keys=False), "keys": written(),
    "vocabulary": written(tokenizer__ggml__model="llama", tokenizer__ggml__tokens=["a", "b"],
                          tokenizer__ggml__scores=[0.0, 0.0]),
    "embeddings": written(tensors=2), "projector": written("clip", general__type="mmproj"),
    "adapter": written(general__type="adapter", tensors=1), "unknown": written("abacus", tensors=1)}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", FILES)
def test_data_or_one_error(name: str, command: str, unladen: Run, tmp_path: Path) -> None:
    path, target = tmp_path / f"{name}.gguf", tmp_path / "target.gguf"
    FILES[name](path)
    (tmp_path / "text").write_text("abab" * 9)
    there = {"TEXT": tmp_path / "text", "TARGET": target}
    ran = unladen(command.split()[0], path, *(there.get(a, a) for a in COMMANDS[command]))
    if ran.code:
        assert ran.code == 1 and ran.out == ""
        assert [line.partition(":")[0] for line in ran.err.splitlines()] == ["error", "hint"]
    assert target.exists() == (command == "quantize" and ran.code == 0)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    if command in ("plan", "run", "bench", "perplexity"):
        assert ran.code == 1


@pytest.mark.parametrize("name", FILES)
def test_from_python(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.gguf"
    FILES[name](path)
    with pytest.raises(UnladenError) as caught:
        Model(path)
    assert caught.value.hint
    if name == "vocabulary":
        assert "holds no tensors" in caught.value.message
        with Model(path, vocab_only=True) as model:
            assert model.detokenize([0, 1]) == "ab"
    if name in ("projector", "adapter"):
        assert "not a language model" in caught.value.message
