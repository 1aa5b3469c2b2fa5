"""This reader and writer agree with the package ``gguf`` in both directions."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unladen.gguf import GGUFWriter, open_gguf
from unladen.gguf.layout import ByteOrder, ValueType
from unladen.quants import get

gguf = pytest.importorskip("gguf")

PLAIN = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}
BITS = {"UINT8": 8, "INT8": 8, "UINT16": 16, "INT16": 16, "UINT32": 32, "INT32": 32, "UINT64": 64,
        "INT64": 64}


class Entry(NamedTuple):
    kind: ValueType
    is_array: bool
    value: Any


class Model(NamedTuple):
    byteorder: ByteOrder
    metadata: dict[str, Entry]
    tensors: dict[str, tuple[str, np.ndarray]]


def scalars(kind: ValueType) -> st.SearchStrategy[Any]:
    if kind is ValueType.BOOL:
        return st.booleans()
    if kind is ValueType.STRING:
        return st.text(st.characters(codec="utf-8"), max_size=12)
    if kind in (ValueType.FLOAT32, ValueType.FLOAT64):
        return st.floats(width=32 if kind is ValueType.FLOAT32 else 64, allow_nan=False)
    bits = BITS[kind.name]
    return (st.integers(0, 2**bits - 1) if kind.name.startswith("U")
            else st.integers(-2**(bits - 1), 2**(bits - 1) - 1))


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    kind = draw(st.sampled_from([t for t in ValueType if t is not ValueType.ARRAY]))
    if draw(st.booleans()):
        return Entry(kind, True, draw(st.lists(scalars(kind), min_size=1, max_size=8)))
    return Entry(kind, False, draw(scalars(kind)))


@st.composite
def arrays(draw: st.DrawFn) -> tuple[str, np.ndarray]:
    quant = draw(st.sampled_from(sorted(PLAIN)))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    dtype = np.dtype(PLAIN[quant])
    raw = draw(st.binary(min_size=math.prod(shape) * dtype.itemsize,
                         max_size=math.prod(shape) * dtype.itemsize))
    return quant, np.frombuffer(raw, dtype).reshape(shape)


names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=10)
orders: st.SearchStrategy[ByteOrder] = st.sampled_from(["little", "big"])
models = st.builds(Model, orders, st.dictionaries(names.map("x.".__add__), entries(), max_size=8),
                   st.dictionaries(names, arrays(), max_size=5))




@settings(max_examples=150, deadline=None)
@given(model=models)
def test_reads_what_the_oracle_wrote(model: Model, fresh: Callable[[], Path]) -> None:
    path = fresh()
    endian = gguf.GGUFEndian.BIG if model.byteorder == "big" else gguf.GGUFEndian.LITTLE
    writer = gguf.GGUFWriter(path, "some-arch", endianess=endian)
    for key, entry in model.metadata.items():
        kind = gguf.GGUFValueType(entry.kind)
        if entry.is_array:
            writer.add_key_value(key, entry.value, gguf.GGUFValueType.ARRAY, sub_type=kind)
        else:
            writer.add_key_value(key, entry.value, kind)
    for name, (_, array) in model.tensors.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    check(path, model, {"general.architecture": Entry(ValueType.STRING, False, "some-arch")})


@settings(max_examples=150, deadline=None)
@given(model=models, version=st.sampled_from([2, 3]), log_alignment=st.integers(0, 8))
def test_reads_what_it_wrote(model: Model, version: int, log_alignment: int,
                             fresh: Callable[[], Path]) -> None:
    path = fresh()
    alignment = 2**log_alignment
    write(path, model, version=version, alignment=alignment)
    extra = {} if alignment == 32 else {
        "general.alignment": Entry(ValueType.UINT32, False, alignment)}
    check(path, model, extra, version)


@settings(max_examples=150, deadline=None)
@given(model=models, log_alignment=st.integers(0, 8))
def test_the_oracle_reads_what_it_wrote(model: Model, log_alignment: int,
                                        fresh: Callable[[], Path]) -> None:
    path = fresh()
    write(path, model, version=3, alignment=2**log_alignment)
    reader = gguf.GGUFReader(path)
    assert reader.endianess.name.lower() == model.byteorder
    for key, entry in model.metadata.items():
        field = reader.get_field(key)
        assert field.contents() == entry.value
        assert field.types[-1].name == entry.kind.name
    assert [t.name for t in reader.tensors] == list(model.tensors)
    for tensor in reader.tensors:
        quant, array = model.tensors[tensor.name]
        assert tensor.tensor_type.name == quant
        assert tensor.data.astype(array.dtype).tobytes() == array.tobytes() or np.isnan(array).any()
        assert tensor.data.shape == array.shape
        assert tensor.data_offset % 2**log_alignment == 0


@pytest.mark.parametrize("quant", ["BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_blocks(quant: str, tmp_path: Path, rng: np.random.Generator) -> None:
    kind = gguf.GGMLQuantizationType[quant]
    block_size, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    shape = (3, 2 * block_size)
    raw = rng.integers(0, 256, (3, 2 * block_bytes), dtype=np.uint8)
    ours, theirs = tmp_path / "ours.gguf", tmp_path / "theirs.gguf"
    writer = GGUFWriter(ours, "x")
    writer.add_tensor("t", raw, quant=quant, shape=shape)
    writer.write()
    (tensor,) = gguf.GGUFReader(ours).tensors
    assert (tensor.tensor_type, tensor.data.tobytes()) == (kind, raw.tobytes())
    oracle = gguf.GGUFWriter(theirs, "x")
    oracle.add_tensor("t", raw, raw_dtype=kind)
    oracle.write_header_to_file()
    oracle.write_kv_data_to_file()
    oracle.write_tensors_to_file()
    oracle.close()
    with open_gguf(theirs) as file:
        info = file.tensors["t"]
        assert (info.quant, info.shape, info.nbytes) == (quant, shape, raw.nbytes)
        assert info.data.tobytes() == raw.tobytes()


@pytest.mark.parametrize("quant", ["F32", "BF16", "I64", "Q4_0", "Q4_K", "Q6_K"])
def test_big_endian_blocks(quant: str, tmp_path: Path, rng: np.random.Generator) -> None:
    form = get(quant)
    raw = rng.integers(0, 256, 4 * form.block_bytes, dtype=np.uint8)
    path = tmp_path / "big.gguf"
    writer = GGUFWriter(path, byteorder="big")
    writer.add_tensor("t", raw, quant=quant, shape=(2, 2 * form.block_size))
    writer.write()
    with open_gguf(path) as file:
        info = file.tensors["t"]
        assert info.data.tobytes() == raw.tobytes()
        stored = path.read_bytes()[info.offset:info.offset + info.nbytes]
    numbers = [(at, width) for fields, width in ((form.fields16, 2), (form.fields32, 4),
                                                 (form.fields64, 8)) for at in fields]
    assert numbers
    expected = bytearray(raw.tobytes())
    for block in range(0, raw.nbytes, form.block_bytes):
        for at, width in numbers:
            start = block + at
            expected[start:start + width] = raw[start:start + width].tobytes()[::-1]
    assert stored == expected


def write(path: Path, model: Model, *, version: int, alignment: int) -> None:
    writer = GGUFWriter(path, byteorder=model.byteorder, version=version, alignment=alignment)
    for key, entry in model.metadata.items():
        writer.set(key, entry.value, entry.kind.name)
    for name, (_, array) in model.tensors.items():
        writer.add_tensor(name, array)
    assert writer.write() == [path]


def check(path: Path, model: Model, extra: dict[str, Entry], version: int = 3) -> None:
    expected = extra | model.metadata
    with open_gguf(path) as file:
        assert (file.path, file.paths) == (str(path), (str(path),))
        assert (file.version, file.byteorder) == (version, model.byteorder)
        assert set(file.metadata) == set(expected)
        for key, entry in expected.items():
            assert file.metadata[key] == entry.value
            assert file.metadata.type_of(key) == entry.kind.name + "[]" * entry.is_array
            if entry.is_array and entry.kind is not ValueType.STRING:
                numbers = file.metadata[key].numpy()
                assert numbers.dtype.isnative
                assert numbers.flags.aligned
                assert numbers.tolist() == entry.value
        assert list(file.tensors) == list(model.tensors)
        for name, (quant, array) in model.tensors.items():
            info = file.tensors[name]
            assert (info.name, info.quant, info.shape) == (name, quant, array.shape)
            assert (info.nbytes, info.file_index) == (array.nbytes, 0)
            assert info.data.tobytes() == array.tobytes()
