"""An op and a block format from a stranger's folder run on GPU backends of both families: a file
each, and one for each family of texts. No file of ours is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import running

Rng = np.random.Generator
TESTS = Path(__file__).resolve().parents[2]
OP = '''
"""y = factor tanh(x)."""

import numpy as np

from unladen.graph.ops.base import EPS32, Op


class Squash(Op):
    name = "squash"

    def infer(self, node):
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node, inputs, ctx):
        return [node.attrs["factor"] * np.tanh(inputs[0])]

    def error_bound(self, node, inputs, ctx):
        # WebGPU promises of tanh what sinh(x) / cosh(x) gives, each from two exponentials.
        return [64 * EPS32 * node.attrs["factor"] * (1 + np.abs(inputs[0]))]
'''
LOWERING = '''
from unladen.backends._gpu.lowering.base import OpLowering, n_cols, numbers


class Squash(OpLowering):
    op = "squash"
    kernels = frozenset({"squash"})

    def lower(self, low, node):
        (x,), (y,) = node.inputs, node.outputs
        low.elements("squash", y, {"params": numbers(n_cols(y), node.float_attr("factor")),
                                   "x": low.value(x), "y": low.value(y)})
'''
WGSL = '''#use step element
struct Params {
  n_cols: u32,
  factor: f32,
}

@group(1) @binding(0) var<uniform> params: Params;
@group(1) @binding(1) var<storage, read_write> x: array<f32>;
@group(1) @binding(2) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(WG)
fn main(@builtin(workgroup_id) id: vec3u, @builtin(num_workgroups) groups: vec3u,
        @builtin(local_invocation_index) lane: u32) {
  let i = element(id, groups, lane);
  if (i >= n_rows(ROW_KIND) * params.n_cols) { return; }
  y[i] = params.factor * tanh(x[i]);
}
'''
C = '''#use step element exp
typedef struct {
  u32 n_cols;
  float factor;
} Params;

#bind struct Params params
#bind in float x
#bind out float y

KERNEL(squash) {
  const u32 i = ELEMENT;
  if (i >= n_rows(args, ROW_KIND) * params.n_cols) return;
  y[i] = params.factor * tanh_f32(x[i]);
}
'''
FORMAT = '''
"""128 weights in 20 bytes: a float32, and a bit for the sign of each weight."""

import numpy as np

from unladen.quants.base import Quant


class Signs128(Quant):
    name, type_id, block_size, block_bytes = "SIGNS128", 251, 128, 20
    fields32 = (0,)

    @classmethod
    def dequantize(cls, blocks):
        scale = np.ascontiguousarray(blocks[:, :4]).view("<f4")
        bits = np.unpackbits(blocks[:, 4:], axis=1, bitorder="little")
        return scale * (2 * bits.astype(np.float32) - 1)

    @classmethod
    def quantize(cls, values):
        scale = np.abs(values).mean(axis=1, keepdims=True).astype("<f4")
        bits = np.packbits(values > 0, axis=1, bitorder="little")
        return np.concatenate([scale.view(np.uint8), bits], axis=1)
'''
FORMAT_WGSL = '''// 0: d float32; 4: a bit for each weight, set means plus.
const SPAN = 4u;
const GROUP = 4u;
const SHIFTED = false;

fn unit_at(u: u32) -> u32 { return 8u * u; }

fn scales(at: u32, u: u32) -> vec4f {
  let d = bitcast<f32>(word(at));
  return vec4f(d, 0.0, d, 0.0);
}

fn codes(at: u32, u: u32) -> Codes {
  let q = byte(at + 4u + u);
  return Codes(2.0 * vec4f(four_bits(q, 0u)) - 1.0, 2.0 * vec4f(four_bits(q, 4u)) - 1.0);
}
'''
FORMAT_C = '''// 0: d float32; 4: a bit for each weight, set means plus.
#define SPAN 4u
#define GROUP 4u
#define SHIFTED 0

FN u32 unit_at(u32 u) { return 8u * u; }

FN f4 scales(ARGS, Bytes b, u32 at, u32 u) {
  const float d = as_f32(word_at(b, at));
  return F4(d, 0.0f, d, 0.0f);
}

FN Codes codes(ARGS, Bytes b, u32 at, u32 u) {
  const u32 q = byte_at(b, at + 4u + u);
  Codes c;
  c.lo = 2.0f * four_bits(q, 0u) - 1.0f;
  c.hi = 2.0f * four_bits(q, 4u) - 1.0f;
  return c;
}
'''
ON_BACKEND = '''
import json, sys
sys.path.append(sys.argv[1])
import numpy as np
from cases import running
from cases.base import Maker
from emulator.backend import EmulatorBackend
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions

backend = EmulatorBackend() if sys.argv[2] == "emulator" else backend_of(sys.argv[2])
device, rng = running.device_of(backend), np.random.default_rng(int(sys.argv[3]))
m = Maker(rng, 9)
case = m.case("squash", m.input("T", 77), attrs={"factor": 2.5})
result = {"has_op": backend.supports(device, case.node), "formats": []}
if result["has_op"]:
    running.check(case, running.Bench(backend, case).run(), precise=True, what="squash")
for op, n_tokens in (("embed", 9), ("linear", 1), ("linear", 4), ("linear", 20)):
    m = Maker(rng, n_tokens)
    m.batch.tokens[:n_tokens] = rng.integers(0, 33, n_tokens)
    x = m.g.inputs["tokens"] if op == "embed" else m.input("T", 256)
    w = m.weight("w", 33, 256, quant="SIGNS128")
    case = m.case(op, x, weights={"w" if op == "embed" else "w0": w})
    result["formats"].append(backend.weight_format(device, case.node, w))
    bench = running.Bench(backend, case, BackendOptions(precise=True))
    running.check(case, bench.run(), precise=True, what="SIGNS128")
print(json.dumps(result))
'''
FILES = {"ops/squash.py": OP, "lowering/squash.py": LOWERING, "quants/signs128.py": FORMAT,
         "wgsl/squash.wgsl": WGSL, "wgsl/quants/signs128.wgsl": FORMAT_WGSL, "c/squash.h": C,
         "c/quants/signs128.h": FORMAT_C}


def write(folder: Path, names: Iterable[str]) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(FILES[name])


def run(program: str, folder: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program, str(TESTS), *arguments], text=True, capture_output=True,
        env={**os.environ, "UNLADEN_PLUGIN_PATH": str(folder)}, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=["wgpu", "opencl", "emulator"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if name != "emulator":
        with running.opened(name):
            pass
    return name


def test_a_file_for_each_family_makes_an_op_and_a_format_run(
        backend: str, tmp_path: Path, rng: Rng) -> None:
    write(tmp_path, FILES)
    found = run(ON_BACKEND, tmp_path, backend, str(rng.integers(2**31)))
    assert found == {"has_op": True, "formats": ["SIGNS128"] * 4}


@pytest.mark.parametrize("backend", ["wgpu", "emulator"], indirect=True)
def test_a_family_without_the_texts(backend: str, tmp_path: Path, rng: Rng) -> None:
    """It has neither: the texts of the other one say nothing about it."""
    own = "wgsl" if backend == "wgpu" else "c"
    write(tmp_path, [name for name in FILES if not name.startswith(f"{own}/")])
    found = run(ON_BACKEND, tmp_path, backend, str(rng.integers(2**31)))
    assert found == {"has_op": False, "formats": ["F32"] * 4}
MODEL = '''
import json, logging, sys
sys.path.append(sys.argv[1])
from pathlib import Path
import numpy as np
from tiny_model import N_VOCAB, write_tiny
from unladen import Model

told = []
handler = logging.Handler()
handler.emit = lambda record: told.append(record.getMessage())
logging.getLogger("unladen").addHandler(handler)
rng = np.random.default_rng(int(sys.argv[4]))
path = write_tiny(Path(sys.argv[3]), rng, n_layers=1, n_embd=128, quant="SIGNS128")
tokens = rng.integers(3, N_VOCAB, 9).tolist()
result = {}
for device in (sys.argv[2], "reference"):
    told.clear()
    with Model(path, kv_type="f32", devices=[device], precise=True) as model:
        result[device] = {"logits": model.logits(tokens).tolist(),
                          "told": [text for text in told if "SIGNS128" in text],
                          "devices": sorted({n.split()[2] for n in
                                             model.placement().splitlines()})}
print(json.dumps(result))
'''


@pytest.mark.parametrize("backend", ["wgpu", "opencl"], indirect=True)
def test_a_model_in_the_format(backend: str, tmp_path: Path, rng: Rng) -> None:
    """Without the text that decodes it, the weights are kept as F32, and that is said."""
    own = {"wgpu": "wgsl/quants/signs128.wgsl", "opencl": "c/quants/signs128.h"}[backend]
    seed, device = str(rng.integers(2**31)), f"{backend}:0"
    for names in ({"quants/signs128.py", own}, {"quants/signs128.py"}):
        (tmp_path / own).unlink(missing_ok=True)
        write(tmp_path, names)
        found = run(MODEL, tmp_path, device, str(tmp_path / "m.gguf"), seed)
        mine, expected = found[device], np.array(found["reference"]["logits"])
        assert ("kept as F32" in " ".join(mine["told"])) == (own not in names)
        assert mine["devices"] == [device] and expected.std() > 0.1
        # Float32 roundings of a few thousand sums, against values of the size of their spread.
        off = np.abs(np.array(mine["logits"]) - expected).max()
        assert off < 1e-4 * max(1, expected.std())
