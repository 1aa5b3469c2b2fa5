"""Ways to damage a model. Each takes the model's files by name and changes some of them.

Structured mutations know what the parts of a file mean and falsify one; the others change bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fuzz.image import ARRAY, CODES, STRING, Entry, Image, Record, parse

Rng = np.random.Generator
Files = dict[str, bytes]

INTEGERS = (0, 1, 2, 3, 7, 31, 32, 33, 255, 256, 2**15, 2**16, 2**20, 2**30, 2**31 - 1, 2**31,
            2**32 - 1, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-30, 1e30, 3.4e38, float("inf"), float("-inf"),
          float("nan"), 0.5, 10000.0)
TEXTS = (b"", b"llama", b"gpt2", b"plamo2", b"hybriddna", b"whitespace", b"rwkv", b"gemma4",
         b"no_vocab", b"bert", b"t5", b"none",
         b"default", b"qwen2", b"llama-bpe", b"superbpe", b"tiny_aya", b"deepseek-v3", b"kimi-k2",
         b"linear", b"yarn", b"longrope", b"\xff\xfe", b"\x1b[2J\x07", b"../../x", b"a" * 300,
         b"%s%n{0}", "\u202e\u0000\U0001F600".encode(), b"qwen3moe", b"mamba", b"rwkv7", b"gemma3",
         b"deepseek2", b"bert", b"jamba", b"phi3", b"falcon")
QUANTS = (0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 29,
          30, 34, 35, 39, 40, 4, 31, 99, 2**31, 2**32 - 1)
SUFFIXES = (b"attention.head_count", b"attention.head_count_kv", b"attention.key_length",
            b"attention.value_length", b"rope.dimension_count", b"rope.freq_base",
            b"rope.scaling.factor", b"rope.scaling.type", b"rope.scaling.original_context_length",
            b"expert_count", b"expert_used_count", b"attention.sliding_window", b"attention.scale",
            b"rope.scaling.attn_factor", b"rope.scaling.yarn_log_multiplier", b"vocab_size",
            b"attention.clamp_kqv", b"final_logit_softcapping", b"attn_logit_softcapping",
            b"logit_scale", b"embedding_scale", b"residual_scale", b"attention.layer_norm_epsilon",
            b"attention.layer_norm_rms_epsilon", b"leading_dense_block_count",
            b"attention.sliding_window_pattern", b"rope.dimension_sections", b"context_length")
TOKENIZER = (b"bos_token_id", b"eos_token_id", b"unknown_token_id", b"padding_token_id",
             b"add_bos_token", b"add_space_prefix", b"token_type", b"scores", b"merges", b"tokens",
             b"pre", b"model", b"eot_token_id", b"fim_pad_token_id", b"precompiled_charsmap",
             b"remove_extra_whitespaces", b"normalizer.lowercase")


def pick(rng: Rng, items: Sequence[Any]) -> Any:
    return items[int(rng.integers(len(items)))]


def scalar(rng: Rng, image: Image, kind: int, old: float | None = None) -> bytes:
    """A number of type ``kind``: an unusual one, or a neighbour of ``old``."""
    code = CODES[kind]
    if code in "fd":
        value = pick(rng, FLOATS)
        return image.pack(code, value if code == "d" else np.float32(value))
    n_bits = 8 * struct.calcsize("<" + code)
    value = pick(rng, INTEGERS)
    if old is not None and rng.integers(2) and np.isfinite(old):
        value = int(pick(rng, (old + 1, old - 1, old * 2, old // 2, -old, old * 3)))
    value %= 2**n_bits
    return (value).to_bytes(n_bits // 8, "little" if image.order == "<" else "big")


def array(rng: Rng, image: Image, depth: int = 0) -> bytes:
    """An array of unusual values, which may be arrays."""
    item = int(pick(rng, (*CODES, STRING, ARRAY)))
    n = pick(rng, (0, 1, 2, 3, 5, 64))
    if item == ARRAY:
        n = 0 if depth > 12 else min(n, 1 if depth > 2 else 3)
        body = b"".join(array(rng, image, depth + 1) for _ in range(n))
    elif item == STRING:
        body = b"".join(image.string(pick(rng, TEXTS)) for _ in range(n))
    else:
        body = b"".join(scalar(rng, image, item) for _ in range(n))
    if not rng.integers(8):
        n = pick(rng, INTEGERS)
    return image.pack("IQ", item, n) + body


def value(rng: Rng, image: Image, entry: Entry) -> None:
    """Change the value of ``entry``, mostly to one of the same type."""
    old = None
    code = CODES.get(entry.kind, "")
    if rng.integers(4) == 0:
        entry.kind = int(pick(rng, (*CODES, STRING, ARRAY, 13, 2**31)))
    elif code and len(entry.body) == struct.calcsize("<" + code):
        old = float(struct.unpack(image.order + code, entry.body)[0])
    if entry.kind == STRING:
        entry.body = image.string(pick(rng, TEXTS))
    elif entry.kind == ARRAY:
        entry.body = changed_array(rng, image, entry.body)
    elif entry.kind in CODES:
        entry.body = scalar(rng, image, entry.kind, old)


def changed_array(rng: Rng, image: Image, body: bytes) -> bytes:
    """``body`` with another count, other items, or another array altogether."""
    if len(body) < 12 or not rng.integers(3):
        return array(rng, image)
    item, n = struct.unpack_from(image.order + "IQ", body)
    items = bytearray(body[12:])
    how = rng.integers(4)
    if how == 0:
        n = int(pick(rng, (*INTEGERS, n + 1, n - 1))) % 2**64
    elif how == 1 and item in CODES and n:  # fewer items, with the right count
        size = struct.calcsize("<" + CODES[item])
        n = int(rng.integers(n))
        items = items[:n * size]
    elif items:
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(items)))
            if how == 2:
                items[at] = int(pick(rng, (0, 1, 0x7F, 0x80, 0xFF, rng.integers(256))))
            else:
                items[at:at + 8] = image.pack("Q", pick(rng, INTEGERS))
    return image.pack("IQ", item, n) + bytes(items)


def metadata(rng: Rng, image: Image) -> None:
    """Change one to three metadata entries."""
    for _ in range(int(rng.integers(1, 4))):
        if image.entries:
            value(rng, image, pick(rng, image.entries))


def hyper_parameters(rng: Rng, image: Image) -> None:
    """Set keys that a model or a tokenizer reads to unusual values."""
    arch = next((e.body[8:] for e in image.entries if e.key == b"general.architecture"), b"llama")
    for _ in range(int(rng.integers(1, 3))):
        prefix, names = ((arch, SUFFIXES) if rng.integers(3) else (b"tokenizer.ggml", TOKENIZER))
        key = prefix + b"." + pick(rng, names)
        there = [e for e in image.entries if e.key == key]
        if there:
            value(rng, image, there[0])
            continue
        kind = int(pick(rng, (4, 5, 6, 6, 4, 7, 10, 11, 12, STRING, ARRAY)))
        body = (image.string(pick(rng, TEXTS)) if kind == STRING
                else array(rng, image) if kind == ARRAY else scalar(rng, image, kind))
        image.entries.append(Entry(key, kind, body))


def entries(rng: Rng, image: Image) -> None:
    """Remove, double, rename or move entries."""
    if not image.entries:
        return
    at = int(rng.integers(len(image.entries)))
    entry = image.entries[at]
    how = rng.integers(4)
    if how == 0:
        del image.entries[at]
    elif how == 1:
        image.entries.append(Entry(entry.key, entry.kind, entry.body))
    elif how == 2:
        entry.key = pick(rng, (*TEXTS, b"general.alignment", b"split.count", b"split.no",
                               entry.key[:-1]))
    else:
        image.entries.insert(0, image.entries.pop(at))


def counts(rng: Rng, image: Image) -> None:
    """Falsify the header's counts."""
    off = int(pick(rng, (*INTEGERS, -1, -2)))
    if rng.integers(2):
        image.n_entries = (len(image.entries) + off if rng.integers(2) else off) % 2**64
    else:
        image.n_records = (len(image.records) + off if rng.integers(2) else off) % 2**64


def tensors(rng: Rng, image: Image) -> None:
    """Change one or two records of the tensor table."""
    for _ in range(int(rng.integers(1, 3))):
        if image.records:
            tensor(rng, image)


def tensor(rng: Rng, image: Image) -> None:
    at = int(rng.integers(len(image.records)))
    record, other = image.records[at], image.records[int(rng.integers(len(image.records)))]
    how = rng.integers(11)
    if how == 0:
        record.dims = record.dims[::-1]
    elif how == 1:
        record.dims[int(rng.integers(len(record.dims)))] = pick(rng, INTEGERS)
    elif how == 2:
        i = int(rng.integers(len(record.dims)))
        record.dims[i] = max(0, record.dims[i] + int(pick(rng, (-1, 1, 32, -32, record.dims[i]))))
    elif how == 3:
        record.kind = pick(rng, QUANTS)
    elif how == 4:
        near = [record.offset + n for n in (1, image.alignment, -image.alignment)]
        record.offset = pick(rng, (*INTEGERS, *near, other.offset))
    elif how == 5:
        record.name, other.name = other.name, record.name
    elif how == 6:
        record.name = pick(rng, (*TEXTS, other.name, record.name + b"x"))
    elif how == 7:
        del image.records[at]
    elif how == 8:
        image.records.append(Record(record.name, list(record.dims), record.kind, record.offset))
    elif how == 9:
        image.n_dims[at] = int(pick(rng, (0, 1, 2, 3, 4, 5, 2**31, 2**32 - 1)))
    else:
        record.dims = [*record.dims, 1] if rng.integers(2) else [1, *record.dims]


def alignment(rng: Rng, image: Image) -> None:
    """Change ``general.alignment``, in a file that is aligned accordingly or isn't."""
    new = int(pick(rng, (0, 1, 3, 8, 16, 48, 64, 2**12, 2**31, 2**32 - 1)))
    image.entries = [e for e in image.entries if e.key != b"general.alignment"]
    image.entries.append(Entry(b"general.alignment", 4, image.pack("I", new)))
    if new and new < 2**13 and rng.integers(2):
        image.alignment = new


def weights(rng: Rng, image: Image) -> None:
    """Write NaN, infinities and noise into the weights."""
    if not image.data:
        return
    for _ in range(int(rng.integers(1, 5))):
        at = int(rng.integers(len(image.data)))
        if rng.integers(2):
            image.data[at & ~3:(at & ~3) + 4] = image.pack("f", np.float32(pick(rng, FLOATS)))
        else:
            n = int(pick(rng, (1, 2, 16, 256, 4096)))
            image.data[at:at + n] = (rng.bytes(n) if rng.integers(2) else b"\xff" * n)
    if not rng.integers(6):
        del image.data[int(rng.integers(len(image.data))):]


STRUCTURED: Mapping[Callable[[Rng, Image], None], int] = {
    metadata: 4, hyper_parameters: 6, entries: 2, counts: 1, tensors: 5, alignment: 1, weights: 3}
"""The structured mutations, and how often each is chosen."""


def flips(rng: Rng, raw: bytearray) -> None:
    """Change some bytes, most of them in the header."""
    for _ in range(int(pick(rng, (1, 1, 2, 4, 16)))):
        end = len(raw) if rng.integers(4) == 0 else min(len(raw), 4096)
        raw[int(rng.integers(end))] = int(pick(rng, (0, 1, 0x7F, 0x80, 0xFF, rng.integers(256))))


def truncation(rng: Rng, raw: bytearray) -> None:
    """Cut off the end."""
    del raw[int(rng.integers(len(raw))):]


def words(rng: Rng, raw: bytearray) -> None:
    """Change eight bytes at a time."""
    at = int(rng.integers(min(len(raw), 8192)))
    raw[at:at + 8] = struct.pack("<Q", pick(rng, INTEGERS))


def pieces(rng: Rng, raw: bytearray) -> None:
    """Remove, double or move a stretch of bytes."""
    start = int(rng.integers(len(raw)))
    piece = raw[start:start + int(pick(rng, (1, 8, 64, 1000)))]
    if rng.integers(2):
        del raw[start:start + len(piece)]
    if rng.integers(3):
        at = int(rng.integers(len(raw) + 1))
        raw[at:at] = piece


PLAIN = (flips, flips, truncation, words, pieces)


def splits(rng: Rng, files: Files) -> None:
    """Remove, swap or double parts of a split model, or falsify their counts."""
    names = sorted(files)
    a, b = (pick(rng, names) for _ in range(2))
    how = rng.integers(5)
    if how == 0 and len(names) > 1:
        del files[a]
    elif how == 1:
        files[a], files[b] = files[b], files[a]
    elif how == 2:
        files[a] = files[b]
    else:
        image = parse(files[a])
        for entry in image.entries:
            if entry.key.startswith(b"split.") and rng.integers(2):
                value(rng, image, entry)
        files[a] = image.content()


def mutated(rng: Rng, files: Mapping[str, bytes], others: Sequence[bytes]) -> Files:
    """``files`` after one mutation or two."""
    out = dict(files)
    name = pick(rng, sorted(out))
    if len(out) > 1 and rng.integers(2):
        splits(rng, out)
        return out
    if rng.integers(4):
        image = parse(out[name])
        chances = np.array(list(STRUCTURED.values()))
        for _ in range(1 + (rng.integers(3) == 0)):
            i = int(rng.choice(len(chances), p=chances / chances.sum()))
            list(STRUCTURED)[i](rng, image)
        out[name] = image.content()
        return out
    raw = bytearray(out[name])
    if rng.integers(6) == 0:
        other = pick(rng, others)
        raw[int(rng.integers(len(raw))):] = other[int(rng.integers(len(other))):]
    else:
        PLAIN[int(rng.integers(len(PLAIN)))](rng, raw)
    out[name] = bytes(raw)
    return out
