"""Hostile files: each false value raises its own error and has no other effect."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest

from unladen import Model
from unladen.errors import GGUFError, ModelNotFound, UnladenError
from unladen.gguf import GGUFWriter, open_gguf
from unladen.quants import by_id

U8, U32, F32, BOOL, STRING, ARRAY = 0, 4, 6, 7, 8, 9


def refused(build, content: bytes, message: str, *, at: int | None = None) -> GGUFError:
    """Open ``content``; it must be refused with ``message``, noticed at byte ``at``."""
    path = build.file(content)
    with pytest.raises(GGUFError, match=message) as caught:
        open_gguf(path)
    assert caught.value.path == str(path)
    assert 0 <= caught.value.offset <= len(content)
    if at is not None:
        assert caught.value.offset == at
    return caught.value


HEAD = 4 + 4 + 8 + 8


def test_magic(little) -> None:
    error = refused(little, b"<!DOCTYPE html>" + b" " * 32, "not a GGUF file, but an HTML", at=0)
    assert "/resolve/" in error.hint


@pytest.mark.parametrize("version", [0, 1, 4, 2**31])
def test_version(little, version: int) -> None:
    error = refused(little, little.content(version=version), f"version {version} ", at=4)
    assert ("convert" in error.hint) == (version == 1)


@pytest.mark.parametrize("size", [0, 3, HEAD - 1])
def test_too_small(little, size: int) -> None:
    refused(little, little.content()[:size], "too few", at=size)


@pytest.mark.parametrize("n", [1, 2**20, 2**62, 2**64 - 1])
def test_counts(little, big, n: int) -> None:
    for build in (little, big):
        refused(build, build.content(n_tensors=n), f"{n} tensors", at=8)
        refused(build, build.content(n_entries=n), f"{n} metadata entries", at=16)


@pytest.mark.parametrize("n", [100, 2**63, 2**64 - 1])
def test_lengths(little, n: int) -> None:
    key = little.pack("Q", n) + bytes(20)
    refused(little, little.content([key]), f"{n} bytes of a metadata key", at=HEAD)
    text = little.entry("k", STRING, little.pack("Q", n))
    refused(little, little.content([text]), f"{n} bytes of k", at=HEAD + 9 + 4)
    numbers = little.entry("k", ARRAY, little.array(F32, n, b""))
    refused(little, little.content([numbers]), f"{n} values in k", at=HEAD + 9 + 4 + 4)
    strings = little.entry("k", ARRAY, little.array(STRING, n, b""))
    refused(little, little.content([strings]), f"{n} strings in k", at=HEAD + 9 + 4 + 4)
    nested = little.entry("k", ARRAY, little.array(ARRAY, n, b""))
    refused(little, little.content([nested]), f"{n} arrays in k", at=HEAD + 9 + 4 + 4)
    name = little.pack("Q", n) + bytes(24)
    refused(little, little.content([], [name]), f"{n} bytes of a tensor's name", at=HEAD)


@pytest.mark.parametrize("n", [9, 2**40, 2**63 - 1, 2**64 - 1])
@pytest.mark.parametrize("followed_by", [0, 2])
def test_string_in_array(little, n: int, followed_by: int) -> None:
    body = little.string("ok") + little.pack("Q", n) + bytes(8 * followed_by)
    entry = little.entry("k", ARRAY, little.array(STRING, 2 + followed_by, body))
    refused(little, little.content([entry]), "in k runs past", at=HEAD + 9 + 4 + 12 + 10)


def test_names_that_are_not_utf8(little) -> None:
    refused(little, little.content([little.entry(b"\xff", U8, b"\0")]), "UTF-8", at=HEAD)
    refused(little, little.content([], [little.tensor(b"\xff", [1])], 4), "UTF-8", at=HEAD)


def test_metadata_types(little) -> None:
    refused(little, little.content([little.entry("k", 13, bytes(8))]), "unknown value type 13",
            at=HEAD + 9)
    array = little.entry("k", ARRAY, little.array(99, 1, bytes(8)))
    refused(little, little.content([array]), "unknown value type 99", at=HEAD + 9 + 4)


def test_booleans(little) -> None:
    refused(little, little.content([little.entry("k", BOOL, b"\2")]), "boolean of 2",
            at=HEAD + 9 + 4)
    array = little.entry("k", ARRAY, little.array(BOOL, 3, b"\0\1\7"))
    refused(little, little.content([array]), "booleans that", at=HEAD + 9 + 4 + 12 + 2)


def test_twice_the_same_key(little) -> None:
    entry = little.entry("k", U8, b"\0")
    refused(little, little.content([entry, entry]), "'k' occurs twice", at=HEAD + len(entry))


def test_deep_nesting(little) -> None:
    for depth in (8, 9, 1000):
        body = little.array(U8, 0, b"")
        for _ in range(depth - 1):
            body = little.array(ARRAY, 1, body)
        content = little.content([little.entry("k", ARRAY, body)])
        if depth == 8:
            with open_gguf(little.file(content, "deep.gguf")) as file:
                assert file.metadata.type_of("k") == "UINT8" + "[]" * 8
        else:
            refused(little, content, "more than 8 deep")


@pytest.mark.parametrize(("value_type", "layout", "value"), [
    (U32, "I", 0), (U32, "I", 3), (U32, "I", 48), (5, "i", 32), (10, "Q", 32), (BOOL, "B", 1)])
def test_alignment(little, value_type: int, layout: str, value: int) -> None:
    entry = little.entry("general.alignment", value_type, little.pack(layout, value))
    refused(little, little.content([entry]), "not a power of two", at=HEAD)


def test_huge_alignment(little) -> None:
    entry = little.entry("general.alignment", U32, little.pack("I", 2**31))
    refused(little, little.content([entry], [little.tensor("t", [1])], 4), "the file at")


def test_twice_the_same_tensor(little) -> None:
    tensor = little.tensor("t", [8])
    refused(little, little.content([], [tensor, tensor], 64), "'t' occurs twice",
            at=HEAD + len(tensor))


@pytest.mark.parametrize("n_dims", [0, 5, 2**32 - 1])
def test_dimensions(little, n_dims: int) -> None:
    tensor = little.tensor("t", [1] * min(n_dims, 5), n_dims=n_dims) + bytes(8)
    refused(little, little.content([], [tensor], 64), f"{n_dims} dimensions", at=HEAD + 9)


@pytest.mark.parametrize(("dims", "type_id"), [
    ([0], 0), ([4, 0], 0), ([31], 2), ([33, 32], 2), ([32, 33], 12), ([1], 2)])
def test_shapes(little, dims: list[int], type_id: int) -> None:
    content = little.content([], [little.tensor("t", dims, type_id)], 4096)
    refused(little, content, "has the shape", at=HEAD + 9)


@pytest.mark.parametrize("dims", [[2**64 - 1], [2**32] * 2, [2**32] * 4, [2**62, 4], [1025]])
def test_shapes_larger_than_the_file(little, dims: list[int]) -> None:
    content = little.content([], [little.tensor("t", dims)], 4000)
    refused(little, content, "in a file of|the file at")


@pytest.mark.parametrize("type_id", [4, 5, 31, 32, 33, 36, 37, 38])
def test_removed_types(little, type_id: int) -> None:
    content = little.content([], [little.tensor("t", [256], type_id)], 4096)
    error = refused(little, content, "was removed from GGUF", at=HEAD + 9 + 4 + 8)
    assert "Q4_0" in error.hint


@pytest.mark.parametrize("type_id", [next(i for i in range(43, 2**32) if by_id(i) is None),
                                     2**32 - 1])
def test_unknown_types(little, type_id: int) -> None:
    content = little.content([], [little.tensor("t", [256], type_id)], 4096)
    refused(little, content, f"unknown type {type_id}", at=HEAD + 9 + 4 + 8)


@pytest.mark.parametrize(("offset", "message"), [
    (1, "not a multiple of 32"), (33, "not a multiple of 32"), (64, "the file at"),
    (2**63, "the file at"), (2**64 - 32, "the file at")])
def test_offsets(little, offset: int, message: str) -> None:
    content = little.content([], [little.tensor("t", [8], 0, offset)], 64)
    refused(little, content, message, at=HEAD + 9 + 4 + 8 + 4)


def test_overlap(little) -> None:
    first = little.tensor("first", [9])
    content = little.content([], [first, little.tensor("second", [8], 0, 32)], 64)
    refused(little, content, "second overlap those of first")
    same = little.content([], [first, little.tensor("second", [8], 0, 0)], 64)
    refused(little, same, "overlap")


def test_paths(tmp_path: Path) -> None:
    for missing in (tmp_path / "none.gguf", tmp_path / "x" / "none.gguf", "nul\0.gguf"):
        with pytest.raises(ModelNotFound):
            open_gguf(missing)
    (tmp_path / "file").write_bytes(bytes(64))
    with pytest.raises(ModelNotFound):
        open_gguf(tmp_path / "file" / "below")
    with pytest.raises(ModelNotFound, match="directory"):
        open_gguf(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelNotFound, match="is a pipe"):
        open_gguf(tmp_path / "pipe")
    with pytest.raises(UnladenError):
        open_gguf("x" * 5000)


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").symlink_to(tmp_path / "b.gguf")
    (tmp_path / "b.gguf").symlink_to(tmp_path / "a.gguf")
    with pytest.raises(UnladenError, match="leads back to itself"):
        open_gguf(tmp_path / "a.gguf")
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nothing.gguf")
    with pytest.raises(ModelNotFound):
        open_gguf(tmp_path / "gone.gguf")
    os.mkfifo(tmp_path / "pipe.gguf")
    for path in (tmp_path / "pipe.gguf", "/dev/zero", "/dev/stdin"):
        with pytest.raises((ModelNotFound, GGUFError)):
            Model(path)


def test_a_pipe_that_takes_the_place_of_a_file(tmp_path: Path, monkeypatch) -> None:
    """A pipe takes the place of the file between the check and the opening: that doesn't hang."""
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "file.gguf").write_bytes(bytes(64))
    regular = os.stat(tmp_path / "file.gguf")
    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", lambda path: regular)
        with pytest.raises(ModelNotFound, match="regular"):
            open_gguf(tmp_path / "pipe.gguf")


def test_a_file_that_shrinks(make_model) -> None:
    path = make_model()
    with open_gguf(path) as file:
        last = max(file.tensors.values(), key=lambda t: t.offset)
        first = min(file.tensors.values(), key=lambda t: t.offset)
        os.truncate(path, last.offset)
        assert first.data.size == first.nbytes
        with pytest.raises(GGUFError, match=f"was cut to {last.offset} bytes") as caught:
            _ = last.data
        assert caught.value.offset == last.offset


def test_absurd_splits(little) -> None:
    """Parts that lead back to themselves, or that are absurdly many."""
    def part(no: int, count: int) -> bytes:
        return little.content([little.entry("split.no", 2, little.pack("H", no)),
                               little.entry("split.count", 10, little.pack("Q", count)),
                               little.entry("general.architecture", STRING, little.string("x"))])

    little.file(part(0, 2), "m-00001-of-00002.gguf")
    (little.folder / "m-00002-of-00002.gguf").symlink_to("m-00001-of-00002.gguf")
    with pytest.raises(GGUFError, match=r"split\.no is 0, its name says 1"):
        open_gguf(little.folder / "m-00001-of-00002.gguf")
    for count in (65535, 2**32, 2**64 - 1):
        little.file(part(0, count), "n-00001-of-65535.gguf")
        with pytest.raises((GGUFError, ModelNotFound)):
            open_gguf(little.folder / "n-00001-of-65535.gguf")


def small(path: Path, rng: np.random.Generator) -> bytes:
    writer = GGUFWriter(path, "llama", byteorder="big" if rng.integers(2) else "little")
    writer.set("k.tokens", ["a", "bc", "", "\u20ac"])
    writer.set("k.scores", [0.5, -1.0, float("nan")])
    writer.set("k.nested", [[1, 2], [3]])
    writer.set("k.flags", [True, False])
    writer.set("k.bool", True)
    writer.set("k.int", -7)
    writer.add_tensor("a", rng.standard_normal((3, 5), dtype=np.float32))
    writer.add_tensor("b", rng.integers(0, 256, 36, dtype=np.uint8), quant="Q4_0", shape=(2, 32))
    writer.write()
    return path.read_bytes()


def read_everything(path: Path) -> None:
    with open_gguf(path) as file:
        for key in file.metadata:
            repr(file.metadata[key])
        for info in file.tensors.values():
            assert info.data.size == info.nbytes


def test_mutations(tmp_path: Path, rng: np.random.Generator) -> None:
    """A file with bytes flipped, cut off or added opens, or raises a typed error."""
    good = small(tmp_path / "good.gguf", rng)
    read_everything(tmp_path / "good.gguf")
    n_refused = 0
    for i in range(600):
        bad = bytearray(good)
        for _ in range(rng.integers(1, 4)):
            bad[rng.integers(len(bad))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.integers(256)])
        if i % 3 == 0:
            del bad[rng.integers(len(bad)):]
        path = tmp_path / f"{i}.gguf"
        path.write_bytes(bad)
        with contextlib.suppress(GGUFError):
            read_everything(path)
            continue
        n_refused += 1
    assert n_refused > 100


def test_every_truncation(tmp_path: Path, rng: np.random.Generator) -> None:
    good = small(tmp_path / "good.gguf", rng)
    with open_gguf(tmp_path / "good.gguf") as file:
        end = max(info.offset + info.nbytes for info in file.tensors.values())
    for size in range(end):
        path = tmp_path / f"{size}.gguf"
        path.write_bytes(good[:size])
        with pytest.raises(GGUFError) as caught:
            open_gguf(path)
        assert caught.value.offset <= size
        assert caught.value.hint
