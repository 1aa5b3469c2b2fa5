"""Counts of layers in the metadata are checked against the layers in the file."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unladen import Model
from unladen.errors import GGUFError, UnladenError, UnsupportedModel
from unladen.gguf import HParams, open_gguf
from unladen.models import load_architecture, registry
from unladen.models._parts.blocks import count_layers

Make = Callable[..., Path]


def counted(n_blocks: int, n_drafting: int | None, *names: str) -> int:
    keys = {"general.architecture": "llama", "llama.block_count": n_blocks}
    if n_drafting is not None:
        keys["llama.nextn_predict_layers"] = n_drafting
    return count_layers(HParams(keys), dict.fromkeys(names, None))


LAYERS = [f"blk.{i}.attn_norm.weight" for i in range(4)]
DRAFT = ["blk.4.nextn.eh_proj.weight", "blk.4.attn_norm.weight"]


@pytest.mark.parametrize("n_drafting", [None, 0, 1, 2, 99])
def test_a_layer_without_drafting_tensors_is_computed(n_drafting: int | None) -> None:
    assert counted(4, n_drafting, *LAYERS) == 4
    assert counted(5, n_drafting, *LAYERS, *DRAFT) == 4  # counted, and there
    assert counted(4, n_drafting, *LAYERS, *DRAFT) == 4  # there, and not counted


def test_counted_layers_may_have_been_cut_away() -> None:
    assert counted(5, 1, *LAYERS) == 4
    assert counted(7, 3, *LAYERS) == 4
    assert counted(6, 2, *LAYERS, *DRAFT) == 4
    with pytest.raises(GGUFError, match=r"llama\.block_count is 6.*blk\.4\."):
        counted(6, 1, *LAYERS)
    with pytest.raises(GGUFError, match=r"llama\.block_count is 5.*blk\.4\."):
        counted(5, None, *LAYERS)


def test_layers_behind_the_count_are_not_dropped() -> None:
    with pytest.raises(GGUFError, match=r"block_count is 3.*blk\.3\.attn_norm\.weight"):
        counted(3, None, *LAYERS)
    with pytest.raises(GGUFError, match=r"block_count is 3.*blk\.3\.attn_norm\.weight"):
        counted(3, 1, *LAYERS, *DRAFT)


def test_layers_in_the_middle() -> None:
    with pytest.raises(GGUFError, match=r"blk\.1\.nextn"):
        counted(4, 1, *LAYERS, "blk.1.nextn.eh_proj.weight")
    with pytest.raises(GGUFError, match=r"no tensor blk\.1\."):
        counted(4, 1, *(name for name in LAYERS if not name.startswith("blk.1.")))


def test_nothing_but_layers_that_draft() -> None:
    with pytest.raises(UnsupportedModel, match="draft"):
        counted(1, 1, "blk.0.nextn.eh_proj.weight")
    with pytest.raises(UnsupportedModel, match="draft"):
        counted(4, 9, "token_embd.weight")
    with pytest.raises(GGUFError, match="holds no tensors"):
        counted(4, 9)


def test_logits_with_a_wrong_count(make_model: Make, rng: np.random.Generator) -> None:
    path = make_model(n_layers=3)
    tokens = [int(t) for t in rng.integers(0, 272, 9)]
    with Model(path) as model:
        expected = model.logits(tokens)
    for n in (1, 2, 3, 50):
        wrong = path.with_name(f"{n}.gguf")
        copy_with(path, wrong, {"llama.nextn_predict_layers": n})
        with Model(wrong) as model:
            np.testing.assert_array_equal(model.logits(tokens), expected)


def copy_with(path: Path, target: Path, keys: Mapping[str, Any]) -> None:
    from unladen.gguf import GGUFWriter
    with open_gguf(path) as file:
        writer = GGUFWriter(target, str(file.metadata["general.architecture"]))
        for key, value in {**file.metadata, **keys}.items():
            if key != "general.architecture":
                writer.set(key, value)
        for name, info in file.tensors.items():
            writer.add_tensor(name, info.data, quant=info.quant, shape=info.shape)
        writer.write()


def test_unused_tensors_are_named_once(make_model: Make, caplog: pytest.LogCaptureFixture) -> None:
    unused = {f"blk.{i}.attn_q_lora.weight": np.zeros((4, 4), np.float32) for i in range(2)}
    spare = {"rope_factors_long.weight": np.ones(4, np.float32),
             "cls.output.weight": np.ones((2, 32), np.float32),
             "blk.0.attn_sub.bias": np.ones(32, np.float32)}
    architecture = load_architecture(open_gguf(make_model(extra=unused | spare)))
    with caplog.at_level(logging.WARNING, "unladen"):
        architecture.build()
        architecture.build()
    (record,) = caplog.records
    text = record.getMessage()
    assert "2 of its tensors aren't used: blk.0.attn_q_lora.weight, blk.1.attn" in text


class Altered:
    """An open file with other metadata."""

    def __init__(self, path: Path, metadata: Mapping[str, Any]) -> None:
        with_tensors = open_gguf(path)
        self.tensors, self.path, self.metadata = with_tensors.tensors, str(path), metadata
        self.key = with_tensors.key


def test_no_count_drops_tensors_in_silence(make_model: Make, rng: np.random.Generator,
                                           caplog: pytest.LogCaptureFixture) -> None:
    """Any number in the metadata may be wrong: then the file's tensors are used, or a typed error
    is raised, or a warning names them."""
    for arch, sizes in (("llama", {"n_experts": 4}), ("qwen3", {}), ("gpt2", {})):
        path = make_model(arch, n_layers=2, **sizes)
        metadata = dict(open_gguf(path).metadata)
        for key, value in metadata.items():
            if not key.startswith(f"{arch}.") or type(value) is not int:
                continue
            wrong = [0, -1, value - 1, value + 1, 2 * value, 1 << 31, int(rng.integers(1, 99)),
                     1.5, "2", True, [value]]
            for other in wrong:
                changed = {**metadata, key: other}
                file: Any = Altered(path, changed)
                caplog.clear()
                try:
                    graph = registry()[arch](file, HParams(changed, path=str(path))).build()
                except UnladenError:
                    continue
                used = {w.name.partition("[")[0] for n in graph.nodes for w in n.weights.values()}
                assert used == set(file.tensors) or caplog.records, (key, other)
