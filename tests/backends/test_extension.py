"""A backend from a stranger's folder, no file of ours touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from unladen.backends import _check_contract, _named_backend
from unladen.backends.base import Backend

TESTS = Path(__file__).parent.parent

CREATE = '''
"""Adds and multiplies, on a device with memory of its own."""

from .arithmetic import Abacus


def create():
    return Abacus()
'''

BACKEND = '''
from dataclasses import dataclass

import numpy as np

from unladen.backends import Backend, Device
from unladen.backends.base import device_number
from unladen.errors import OutOfMemory

MEMORY = 1 << 30


@dataclass
class Beads:
    device: Device
    data: np.ndarray

    @property
    def nbytes(self):
        return self.data.nbytes


class Abacus(Backend):
    name = "abacus"

    def open(self, device, options):
        return Device(f"abacus:{device_number(device)}", "beads on wires", MEMORY)

    def alloc(self, device, nbytes, use, row_bytes=1):
        if nbytes > MEMORY:
            raise OutOfMemory(device=device.name, requested=nbytes, free=MEMORY)
        return Beads(device, np.zeros(nbytes, np.uint8))

    def write(self, dst, src, offset=0):
        dst.data[offset:offset + src.nbytes] = src

    def read(self, src, nbytes, offset=0):
        return src.data[offset:offset + nbytes].copy()

    def supports(self, device, node):
        is_plain = set(node.weights) == {"w0"} and len(node.inputs) == 1
        return node.op == "add" or (node.op == "linear" and is_plain)

    def compile(self, segment):
        return segment

    def run(self, program):
        for node in program.nodes:
            inputs = [value_of(program, value) for value in node.inputs]
            weights = [weight_of(program.weights[w.name]) for w in node.weights.values()]
            if node.op == "linear":
                result = inputs[0] @ weights[0].T
            else:
                result = inputs[0] + (weights[0].ravel() if weights else inputs[1])
            value_of(program, node.outputs[0])[...] = result


def value_of(segment, value):
    shape = [segment.batch.size(n) if isinstance(n, str) else n for n in value.shape]
    start = segment.offsets[value]
    data = segment.arena.data[start:start + 4 * int(np.prod(shape))]
    return data.view(np.float32).reshape(shape)


def weight_of(placed):
    data = placed.buffer.data[placed.offset:placed.offset + 4 * placed.weight.n_elements]
    return data.view(np.float32).reshape(placed.weight.shape)
'''

PROGRAM = '''
import json, logging, sys
from pathlib import Path
import numpy as np
sys.path.append(sys.argv[1])
from tiny_model import N_VOCAB, write_tiny
from unladen import Model

records = []
handler = logging.Handler()
handler.emit = lambda record: records.append(record.getMessage())
logging.getLogger("unladen").addHandler(handler)
rng = np.random.default_rng(int(sys.argv[3]))
path = write_tiny(Path(sys.argv[2]), rng, quant="Q8_0")
tokens = rng.integers(3, N_VOCAB, 30).tolist()
with Model(path, kv_type="f32", devices=["reference"]) as model:
    expected = model.logits(tokens)
with Model(path, kv_type="f32", devices=["abacus", "cpu"], n_gpu_layers="all",
           precise=True) as model:
    logits = model.logits(tokens)
    written = model.generate(tokens, temperature=0.0, max_tokens=5)
    placement = model.placement()
print(json.dumps({
    "warnings": records, "placement": placement, "n_written": len(written.tokens),
    "spread": float(expected.std()), "difference": float(np.abs(logits - expected).max())}))
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "backends" / "abacus"
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(CREATE)
    (home / "arithmetic.py").write_text(BACKEND)
    return tmp_path


def test_it_is_small() -> None:
    n_methods = sum(line.startswith("    def ") for line in BACKEND.partition("class Abacus")[2]
                    .splitlines())
    assert n_methods == len(Backend.__abstractmethods__) <= 8


def test_a_model_runs_on_it(folder: Path, rng: np.random.Generator) -> None:
    """As far as it has the ops; the rest runs on the CPU, and both say so."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(TESTS), str(folder / "m.gguf"),
         str(rng.integers(2**31))],
        env={**os.environ, "UNLADEN_PLUGIN_PATH": str(folder)}, text=True, capture_output=True,
        check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["n_written"] == 5
    # Float32 roundings of a few thousand sums, against logits of the size of their spread.
    assert found["difference"] < 1e-4 * max(1.0, found["spread"]) and found["spread"] > 0.1
    where: dict[str, set[str]] = {}
    for line in found["placement"].splitlines():
        _, op, device, *_ = line.split()
        where.setdefault(device, set()).add(op)
    assert {"add", "linear"} <= where["abacus:0"] <= {"add", "linear"}
    assert {"attention", "embed", "rms_norm"} <= where["cpu:0"]
    assert any("abacus:0 lacks" in text for text in found["warnings"])
    assert any("abacus:0 has no kernel for Q8_0" in text for text in found["warnings"])


def test_the_tests_of_every_backend_find_it(folder: Path) -> None:
    """And of every op, as far as it says that it has the op."""
    files = [str(TESTS / "backends" / name) for name in ("test_contract.py", "test_ops.py")]
    chosen = "abacus and (add or linear or test_contract) and not head_linear and not attention"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", "-k", chosen,
         *files], cwd=TESTS.parent, env={**os.environ, "UNLADEN_PLUGIN_PATH": str(folder)},
        text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout
    counts = done.stdout.splitlines()[-1].split()
    assert int(counts[counts.index("passed") - 1] if "passed" in counts
               else counts[counts.index("passed,") - 1]) > 20, counts


class Old:
    """Has the methods of the contract as it was before there was a class for it."""

    name = "old"

    def supports(self, node: object) -> bool:
        return True


def test_another_contract_is_refused_with_a_reason() -> None:
    module = ModuleType("somebodys_backend")
    module.create = Old  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"Old, which is not derived from unladen\.backends"):
        dict(_named_backend(module))


def derived(**own: object) -> Backend:
    """A backend with methods of its own, and others that take anything."""
    methods = {name: lambda self, *args: None for name in Backend.__abstractmethods__}
    made: Backend = type("Mine", (Backend,), {**methods, "name": "mine", **own})()
    return made


def test_other_parameters_are_refused_with_a_reason() -> None:
    _check_contract(derived())
    _check_contract(derived(fetch=lambda self, *args: None))
    for own, why in (
            ({"supports": lambda self, node: True}, r"Mine.supports doesn't take \(device, node\)"),
            ({"discard": lambda self, buffer: None}, r"Mine.discard doesn't take \(buffer, "),
            ({"name": 3}, "Mine has no name")):
        with pytest.raises(TypeError, match=why):
            _check_contract(derived(**own))


def test_what_lacks_a_method_is_refused_with_a_reason() -> None:
    module = ModuleType("somebodys_backend")
    module.create = type("Mine", (Backend,), {"name": "mine"})  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match=r"abstract method.*alloc"):
        dict(_named_backend(module))
