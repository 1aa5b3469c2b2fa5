"""An architecture, an op and a block format from a stranger's folder, no file of ours touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OP = '''
"""y = tanh(x)."""

import numpy as np

from unladen.graph.ops.base import Op


class Squash(Op):
    name = "squash"

    def infer(self, node):
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node, inputs, ctx):
        return [np.tanh(inputs[0])]
'''

QUANT = '''
"""Eight weights as four-bit steps of a float32."""

import numpy as np

from unladen.quants.base import Quant


class Nibble8(Quant):
    name, type_id, block_size, block_bytes = "NIBBLE8", 250, 8, 8
    fields32 = (0,)

    @classmethod
    def dequantize(cls, blocks):
        scale = np.ascontiguousarray(blocks[:, :4]).view("<f4")
        codes = np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1)
        return scale * (codes.astype(np.float32) - 8)

    @classmethod
    def quantize(cls, values):
        scale = np.abs(values).max(axis=1, keepdims=True) / 7
        codes = np.rint(values / np.where(scale == 0, 1, scale)).astype(np.int8) + 8
        codes = codes.astype(np.uint8)
        packed = codes[:, :4] | codes[:, 4:] << 4
        return np.concatenate([scale.astype("<f4").view(np.uint8), packed], axis=1)
'''

ARCHITECTURE = '''
"""A llama whose feed-forward network squashes its result."""

from unladen.models._parts.decoder import Decoder


class Squashed(Decoder):
    arch = "squashed"

    def feed_forward(self, g, x):
        return g.one("squash", super().feed_forward(g, x), name="ffn_squash")
'''

PROGRAM = '''
import json, logging, sys
from pathlib import Path
import numpy as np
sys.path.append(sys.argv[1])
from tiny_model import N_VOCAB, write_tiny
from unladen import Model
from unladen.errors import UnsupportedOp

records = []
handler = logging.Handler()
handler.emit = lambda record: records.append(record.getMessage())
logging.getLogger("unladen").addHandler(handler)
rng = np.random.default_rng(int(sys.argv[3]))
path = write_tiny(Path(sys.argv[2]), rng, arch="squashed", quant="NIBBLE8")
tokens = rng.integers(3, N_VOCAB, 30).tolist()
try:
    Model(path, strict=True)
    strict = ""
except UnsupportedOp as error:
    strict = str(error)
records.clear()
with Model(path, kv_type="f32") as model:
    warnings = list(records)
    logits = model.logits(tokens)
    written = model.generate(tokens, temperature=0.0, max_tokens=12)
    placement = model.placement()
    quants = sorted({t.quant for t in model.tensors.values()})
records.clear()
with Model(path, kv_type="f32", devices=["reference"]) as model:
    expected = model.logits(tokens)
print(json.dumps({
    "strict": strict, "warnings": warnings, "quants": quants, "placement": placement,
    "n_written": len(written.tokens), "reference_warnings": records, "finite": bool(
        np.isfinite(logits).all()), "spread": float(expected.std()),
    "difference": float(np.abs(logits - expected).max())}))
'''


@pytest.fixture
def found(tmp_path: Path, rng: Any) -> dict[str, Any]:
    for kind, name, text in (("ops", "squash", OP), ("quants", "nibble8", QUANT),
                             ("models", "squashed", ARCHITECTURE)):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(tmp_path / "m.gguf"),
         str(rng.integers(2**31))],
        env={**os.environ, "UNLADEN_PLUGIN_PATH": str(tmp_path)}, text=True, capture_output=True,
        check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_three_files_make_a_new_model_run(found: dict[str, Any]) -> None:
    assert found["quants"] == ["F32", "NIBBLE8"]
    assert found["finite"] and found["n_written"] == 12
    # Float32 roundings of a few thousand sums, against logits of the size of their spread.
    assert found["difference"] < 1e-4 * max(1.0, found["spread"]) and found["spread"] > 0.1


def test_what_the_cpu_lacks_is_said_once(found: dict[str, Any]) -> None:
    converted, fallback = sorted(found["warnings"])
    assert "cpu:0 lacks the op (squash)" in fallback and "reference:0" in fallback
    assert "cpu:0 has no kernel for NIBBLE8: 23 tensors are kept as F32" in converted
    assert found["reference_warnings"] == []
    assert "can't run squash" in found["strict"]
    where = {line.split()[0]: line.split()[2] for line in found["placement"].splitlines()}
    assert {n for n, d in where.items() if d != "cpu:0"} == {
        f"blk.{i}.ffn_squash" for i in range(3)}
