"""An op from a stranger's folder runs on the GPU: its lowering and its text, no file of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

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
TEXT = '''#use step element
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
PROGRAM = '''
import sys
sys.path.append(sys.argv[1])
import numpy as np
from cases import running
from cases.base import Maker
from unladen.backends import backend_of
from unladen.backends.base import BackendOptions

rng = np.random.default_rng(int(sys.argv[2]))
m = Maker(rng, 9)
case = m.case("squash", m.input("T", 77), attrs={"factor": 2.5})
backend = backend_of("wgpu")
device = backend.open("wgpu", BackendOptions())
assert backend.supports(device, case.node) == bool(int(sys.argv[3]))
if int(sys.argv[3]):
    running.check(case, running.Bench(backend, case).run(), precise=True, what="squash")
'''


def test_three_files_make_an_op_run(tmp_path: Path, rng: np.random.Generator) -> None:
    for kind, name, text in (("ops", "squash.py", OP), ("lowering", "squash.py", LOWERING),
                             ("wgsl", "squash.wgsl", TEXT)):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / name).write_text(text)
    for has_text in (True, False):
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(TESTS), str(rng.integers(2**31)),
             str(int(has_text))], env={**os.environ, "UNLADEN_PLUGIN_PATH": str(tmp_path)},
            check=True)
        (tmp_path / "wgsl/squash.wgsl").unlink(missing_ok=True)


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
FORMAT_TEXT = '''// 0: d float32; 4: a bit for each weight, set means plus.
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
WITH_FORMAT = '''
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
rng = np.random.default_rng(int(sys.argv[3]))
path = write_tiny(Path(sys.argv[2]), rng, n_layers=1, n_embd=128, quant="SIGNS128")
tokens = rng.integers(3, N_VOCAB, 9).tolist()
result = {}
for device in ("wgpu:0", "reference"):
    told.clear()
    with Model(path, kv_type="f32", devices=[device], precise=True) as model:
        result[device] = model.logits(tokens).tolist()
        result[device + " told"] = [text for text in told if "SIGNS128" in text]
        result[device + " devices"] = sorted({n.split()[2] for n in
                                              model.placement().splitlines()})
print(json.dumps(result))
'''


def test_two_files_make_a_format_run(tmp_path: Path, rng: np.random.Generator) -> None:
    """The format, and the text that decodes it; without the text the weights are kept as F32."""
    for folder, name, text in (("quants", "signs128.py", FORMAT),
                               ("wgsl/quants", "signs128.wgsl", FORMAT_TEXT)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_text(text)
    seed, results = str(rng.integers(2**31)), []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", WITH_FORMAT, str(TESTS), str(tmp_path / "m.gguf"), seed],
            env={**os.environ, "UNLADEN_PLUGIN_PATH": str(tmp_path)}, check=False, text=True,
            capture_output=True)
        assert done.returncode == 0, done.stderr
        results.append(json.loads(done.stdout))
        (tmp_path / "wgsl/quants/signs128.wgsl").unlink(missing_ok=True)
    coded, plain = results
    assert coded["wgpu:0 told"] == [] and "kept as F32" in " ".join(plain["wgpu:0 told"])
    expected = np.array(coded["reference"])
    for each in results:
        assert each["wgpu:0 devices"] == ["wgpu:0"]
        # Float32 roundings of a few thousand sums, against values of the size of their spread.
        assert np.abs(np.array(each["wgpu:0"]) - expected).max() < 1e-4 * max(1, expected.std())
    assert expected.std() > 0.1
