"""An op from a stranger's folder runs on the GPU: its lowering and its text, no file of ours."""

from __future__ import annotations

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
