"""Files by their keys, and tensors in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiny_model import write_tiny
from two_graphs import DRAFT, Pair
from unladen.assembly.sources import Sources
from unladen.errors import GGUFError, InvalidArgument
from unladen.gguf import GGUFWriter, open_gguf
from unladen.graph.graph import TensorKey
from unladen.models import load_architecture
from unladen.types import MAIN


def test_every_tensor_of_every_file(pair: Pair) -> None:
    for file in pair.files:
        for name, info in file.tensors.items():
            assert np.shares_memory(pair.sources.data(TensorKey(file.key, name)), info.data)
    assert pair.sources.paths == {f.key: f.path for f in pair.files}


def test_names_are_those_of_weights(pair: Pair) -> None:
    names = pair.sources.names()
    assert len(names) == len(set(names)) == sum(len(f.tensors) for f in pair.files)
    for graph in pair.graphs(shared=True).values():
        assert set(graph.weights()) <= set(names)


def test_a_tensor_that_is_missing(pair: Pair) -> None:
    with pytest.raises(GGUFError, match=r"draft\.gguf: the tensor output\.wieght is missing") as e:
        pair.sources.data(TensorKey(DRAFT, "output.wieght"))
    assert "did you mean weight" in e.value.hint
    with pytest.raises(GGUFError, match=r"draft\.gguf: the tensor blk\.3\.ffn_up") as e:
        pair.sources.data(TensorKey(DRAFT, "blk.3.ffn_up.weight"))
    assert e.value.hint


def test_a_file_that_is_not_open(pair: Pair) -> None:
    with pytest.raises(InvalidArgument, match="no such file is open") as caught:
        pair.sources.data(TensorKey("adapter", "output.weight"))
    assert "'adapter'" in caught.value.message
    assert all(f"{f.key} ({f.path})" in caught.value.hint for f in pair.files)


def test_two_files_with_one_key(pair: Pair) -> None:
    main, draft = pair.files
    with open_gguf(draft.path) as again, pytest.raises(InvalidArgument) as caught:
        Sources(main, draft, again)
    assert main.path in caught.value.message and draft.path in caught.value.message
    assert "'main'" in caught.value.message


@pytest.mark.parametrize("key", ["", "a:b", "1st", "a b", "..", "blk.0", "\x00"])
def test_keys_that_could_be_mistaken(pair: Pair, key: str) -> None:
    """A colon ends the key in a weight's name, and a dot is in tensors' names."""
    with open_gguf(pair.files[1].path, key=key) as file, pytest.raises(InvalidArgument) as caught:
        Sources(pair.files[0], file)
    assert file.path in caught.value.message


def test_the_models_own_file_must_be_there(pair: Pair) -> None:
    with pytest.raises(InvalidArgument, match="'main'"):
        Sources(pair.files[1])


def test_a_split_model_is_one_file(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", "x", split_max_tensors=1)
    for i in range(3):
        writer.add_tensor(f"t{i}", np.full((4, 4), i, np.float32))
    writer.write()
    with open_gguf(tmp_path / "m-00001-of-00003.gguf", key="parts") as file, open_gguf(
            tmp_path / "m-00002-of-00003.gguf") as main:
        sources = Sources(main, file)
        for i in range(3):
            data = sources.data(TensorKey("parts", f"t{i}"))
            assert np.array_equal(data.view(np.float32), np.full(16, i, np.float32))


def test_a_name_that_looks_like_another_files(tmp_path: Path, rng: np.random.Generator) -> None:
    """A hostile file can't pass its own tensor off as another file's."""
    bad = write_tiny(tmp_path / "bad.gguf", rng, changed={
        "draft:output.weight": np.zeros((8, 8), np.float32)})
    good = write_tiny(tmp_path / "good.gguf", rng)
    with open_gguf(bad) as main, open_gguf(good, key=DRAFT) as draft:
        sources = Sources(main, draft)
        weight = load_architecture(draft).build().weights()["draft:output.weight"]
        assert weight.key == (DRAFT, "output.weight")
        assert np.shares_memory(sources.data(weight.key), draft.tensors["output.weight"].data)
        assert "draft:output.weight" not in load_architecture(main).build().weights()
        assert MAIN in sources.paths
