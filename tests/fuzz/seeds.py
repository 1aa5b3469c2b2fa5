"""Makes the sound models that are mutated: small ones, each with a feature that the others lack."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from factory import Shape, write_model
from unladen.api import TINY
from unladen.gguf import GGUFWriter, open_gguf

NORMAL, CONTROL, USER_DEFINED = 1, 3, 4


@dataclass(frozen=True)
class Seed:
    """A sound model: its files by name."""

    name: str
    files: Mapping[str, bytes]

    @property
    def first(self) -> str:
        """The file to open."""
        return min(self.files)


def seeds(folder: Path, rng: np.random.Generator, recipes: Path | None = None) -> list[Seed]:
    """All sound models, built in ``folder``; with one for each recipe in the folder ``recipes``."""
    found = [Seed("tiny", {"tiny.gguf": TINY.read_bytes()})]
    for name, paths in _made(folder, rng):
        found.append(Seed(name, {p.name: p.read_bytes() for p in paths}))
    if recipes is not None:
        found += _from_recipes(folder, recipes)
    return found


def _made(folder: Path, rng: np.random.Generator) -> Iterator[tuple[str, list[Path]]]:
    def write(name: str, arch: str, quant: str = "F32", *, keys: Mapping[str, Any] | None = None,
              **sizes: Any) -> Path:
        n_vocab = len((keys or {}).get("tokenizer.ggml.tokens", ())) or 272
        return write_model(folder / f"{name}.gguf", rng, Shape(arch, n_vocab=n_vocab, **sizes),
                           quant=quant, keys=keys, tokenizer=keys is None)

    spm = write("spm", "llama")
    yield "spm", [spm]
    yield "bpe", [write("bpe", "qwen2", "Q8_0", keys=bpe("qwen2"))]
    yield "digits", [write("digits", "qwen2", "F16", keys=bpe("superbpe"))]
    yield "gemma4", [write("gemma4", "qwen3", "Q4_0", keys=gemma4())]
    yield "rwkv", [write("rwkv", "gpt2", "BF16", keys=rwkv())]
    yield "unigram", [write("unigram", "llama", keys=unigram())]
    yield "wordpiece", [write("wordpiece", "llama", keys=wordpiece())]
    yield "plamo2", [write("plamo2", "llama", keys=plamo2())]
    yield "dna", [write("dna", "qwen2", keys=bpe("qwen2", "hybriddna", ["<dna>", "</dna>",
                                                                        "<oov>", "ACGTAC\ue000"]))]
    yield "experts", [write("experts", "qwen3moe", "Q5_1", n_experts=4, biases=True)]
    yield "blocks256", [write("blocks256", "llama", "Q4_K", n_layers=1, n_embd=256, n_ff=256,
                              tied=True)]
    yield "codebook", [write("codebook", "llama", "IQ4_XS", n_layers=1, n_embd=256, n_ff=256,
                             tied=True)]
    for name, options in (("big", {"byteorder": "big"}), ("aligned", {"alignment": 256}),
                          ("parts", {"split_max_tensors": 9})):
        yield name, _again(spm, folder / f"{name}.gguf", options)


def _again(source: Path, path: Path, options: Mapping[str, Any]) -> list[Path]:
    """``source`` written with other ``options``."""
    with open_gguf(source) as file:
        writer = GGUFWriter(path, **options)
        for key, value in file.metadata.items():
            writer.set(key, value, file.metadata.type_of(key))
        for t in file.tensors.values():
            writer.add_tensor(t.name, t.data, quant=t.quant, shape=t.shape)
        return writer.write()


def _tokenizer(model: str, tokens: list[str], types: list[int], **more: Any) -> dict[str, Any]:
    keys = {"model": model, "tokens": tokens, "token_type": np.array(types, np.int32), **more}
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def bpe(pre: str, model: str = "gpt2", more: Sequence[str] = ()) -> dict[str, Any]:
    """A byte-level vocabulary with the pre-tokenizer ``pre``."""
    printable = [b for b in range(256) if chr(b).isprintable() and b != 0x20]
    others = [b for b in range(256) if b not in printable]
    letters = [chr(b) if b in printable else chr(0x100 + others.index(b)) for b in range(256)]
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "Ġ Ġ", "1 2"]
    tokens = [*letters, *(m.replace(" ", "") for m in merges)]
    special = ["<|begin|>", "<|endoftext|>", "<|im_end|>", "<tool>"]
    types = [NORMAL] * len(tokens) + [CONTROL] * 3 + [USER_DEFINED] * (1 + len(more))
    return _tokenizer(model, [*tokens, *special, *more], types, pre=pre, merges=merges,
                      bos_token_id=len(tokens), eos_token_id=len(tokens) + 1)


def gemma4() -> dict[str, Any]:
    """A vocabulary of characters and bytes, with U+2581 for a space."""
    tokens = ["<pad>", "<eos>", "<bos>", *(f"<0x{b:02X}>" for b in range(256)), "▁", *"helo\n",
              "he", "▁h", "\n\n"]
    return _tokenizer("gemma4", tokens, [CONTROL] * 3 + [6] * 256 + [NORMAL] * 9,
                      merges=["h e", "▁ h", "\n \n"], bos_token_id=2, eos_token_id=1)


def rwkv() -> dict[str, Any]:
    """A vocabulary of byte literals."""
    tokens = ["<s>", *(f"\\x{b:02x}" for b in range(256)), "he", "hello", "\\n\\n", "\\\\"]
    return _tokenizer("rwkv", tokens, [CONTROL] + [NORMAL] * 260)


def unigram() -> dict[str, Any]:
    """A vocabulary with scores, and a normalization table that writes "A" as "aa"."""
    units = np.zeros(256, np.uint32)
    units[0] = 1 << 10  # its children begin at 1 ^ byte
    units[1 ^ ord("A")] = 2 << 10 | 1 << 8 | ord("A")
    units[1 ^ ord("A") ^ 2] = 1 << 31
    table = np.array([1024], "<u4").tobytes() + units.astype("<u4").tobytes() + b"aa\0"
    tokens = ["<pad>", "</s>", "<unk>", "▁", *"aelohw", "he", "▁he", "lo", "▁w", "é"]
    scores = -np.arange(len(tokens), dtype=np.float32)
    return _tokenizer("t5", tokens, [CONTROL] * 2 + [2] + [NORMAL] * (len(tokens) - 3),
                      scores=scores, precompiled_charsmap=np.frombuffer(table, np.uint8),
                      add_space_prefix=True, remove_extra_whitespaces=True)


def wordpiece() -> dict[str, Any]:
    """A vocabulary whose words begin with U+2581."""
    tokens = ["[UNK]", "[CLS]", "[SEP]", "▁hello", "▁w", "o", "r", "ld", "▁1", "2", "34", "▁don",
              "▁'", "▁t"]
    return _tokenizer("bert", tokens, [CONTROL] * 3 + [NORMAL] * (len(tokens) - 3),
                      unknown_token_id=0, cls_token_id=1, seperator_token_id=2)


def plamo2() -> dict[str, Any]:
    """A vocabulary of every byte and a few words."""
    tokens = ["<|plamo:unk|>", *(f"<0x{b:02X}>" for b in range(256)), *"helo w", "he", "llo"]
    types = [2] + [6] * 256 + [NORMAL] * 8
    return _tokenizer("plamo2", tokens, types, scores=-np.arange(len(tokens), dtype=np.float32))


def _from_recipes(folder: Path, recipes: Path) -> list[Seed]:
    """A model of every architecture that has a recipe and is implemented."""
    from unladen.models import registry
    spec = importlib.util.spec_from_file_location("fixture", recipes / "fixture.py")
    assert spec is not None and spec.loader is not None
    fixture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fixture)
    found = []
    for recipe in sorted(recipes.glob("*.json")):
        if json.loads(recipe.read_text(encoding="utf-8"))["arch"] in registry():
            path = folder / f"{recipe.stem}.gguf"
            fixture.build(recipe, path)
            found.append(Seed(recipe.stem, {path.name: path.read_bytes()}))
    return found
