"""Models that are split into several files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unladen.errors import GGUFError, ModelNotFound
from unladen.gguf import GGUFWriter, open_gguf

U16, I32 = 2, 5


def split(folder: Path, rng: np.random.Generator, **options) -> tuple[list[Path], dict]:
    tensors = {f"t{i}": rng.standard_normal((i + 1, 3), dtype=np.float32) for i in range(7)}
    writer = GGUFWriter(folder / "model.gguf", "llama", split_max_tensors=3, **options)
    writer.set("k", 5)
    for name, array in tensors.items():
        writer.add_tensor(name, array)
    return writer.write(), tensors


@pytest.mark.parametrize("options", [{}, {"byteorder": "big"}, {"alignment": 256}])
def test_any_part_opens_all(tmp_path: Path, rng: np.random.Generator, options: dict) -> None:
    paths, tensors = split(tmp_path, rng, **options)
    assert [p.name for p in paths] == [f"model-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    for path in paths:
        with open_gguf(path) as file:
            assert file.paths == tuple(map(str, paths))
            assert file.path == str(paths[0])
            assert (file.metadata["k"], file.metadata["split.count"]) == (5, 3)
            assert [t.file_index for t in file.tensors.values()] == [0, 0, 0, 1, 1, 1, 2]
            for name, array in tensors.items():
                info = file.tensors[name]
                assert info.data.tobytes() == array.tobytes()
                if file.byteorder == "little":
                    raw = Path(file.paths[info.file_index]).read_bytes()
                    assert raw[info.offset:info.offset + info.nbytes] == array.tobytes()


def test_parts_of_the_oracle(tmp_path: Path, rng: np.random.Generator) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama", split_max_tensors=2)
    arrays = {f"t{i}": rng.standard_normal(4, dtype=np.float32) for i in range(5)}
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with open_gguf(tmp_path / "m-00002-of-00003.gguf") as file:
        assert {n: t.data.view(np.float32).tolist() for n, t in file.tensors.items()} == {
            n: a.tolist() for n, a in arrays.items()}


def test_few_tensors_are_not_split(tmp_path: Path) -> None:
    writer = GGUFWriter(tmp_path / "m.gguf", "x", split_max_tensors=1)
    writer.add_tensor("t", np.zeros(4, np.float32))
    assert writer.write() == [tmp_path / "m.gguf"]
    with open_gguf(tmp_path / "m.gguf") as file:
        assert "split.count" not in file.metadata


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_missing_part(tmp_path: Path, rng: np.random.Generator, missing: int) -> None:
    paths, _ = split(tmp_path, rng)
    paths[missing].unlink()
    with pytest.raises(ModelNotFound, match=paths[missing].name) as caught:
        open_gguf(paths[missing - 1])
    assert f"part {missing + 1} of 3" in str(caught.value)


def test_damaged_part(tmp_path: Path, rng: np.random.Generator) -> None:
    paths, _ = split(tmp_path, rng)
    paths[2].write_bytes(paths[2].read_bytes()[:-40])
    with pytest.raises(GGUFError) as caught:
        open_gguf(paths[0])
    assert caught.value.path == str(paths[2])


def test_renamed(tmp_path: Path, rng: np.random.Generator) -> None:
    paths, _ = split(tmp_path, rng)
    other = paths[0].rename(tmp_path / "model.gguf")
    with pytest.raises(GGUFError, match="one of 3 parts"):
        open_gguf(other)
    other.rename(paths[0])
    content = paths[1].read_bytes()
    paths[2].write_bytes(content)
    with pytest.raises(GGUFError, match=r"split\.no is 1, its name says 2"):
        open_gguf(paths[0])


def part(build, number: int, name: str, n_tensors: int = 2) -> None:
    entries = [build.entry("split.no", U16, build.pack("H", number)),
               build.entry("split.count", U16, build.pack("H", 2)),
               build.entry("split.tensors.count", I32, build.pack("i", n_tensors))]
    build.file(build.content(entries, [build.tensor(name, [1])], 4),
               f"m-0000{number + 1}-of-00002.gguf")


def test_parts_must_agree(little) -> None:
    part(little, 0, "a")
    part(little, 1, "b")
    first = little.folder / "m-00001-of-00002.gguf"
    with open_gguf(first) as file:
        assert list(file.tensors) == ["a", "b"]
    part(little, 1, "a")
    with pytest.raises(GGUFError, match="'a' is in"):
        open_gguf(first)
    part(little, 1, "b")
    part(little, 0, "a", n_tensors=3)
    with pytest.raises(GGUFError, match="the parts hold 2"):
        open_gguf(first)
    part(little, 0, "a", n_tensors=-1)
    with pytest.raises(GGUFError, match="not a count"):
        open_gguf(first)
