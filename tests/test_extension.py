"""An architecture, an op and a block format, one file each, work without other changes: in a
plug-in folder, and in a copy of the sources, where the tests that run everything include them."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]

OP = '''
"""y = tanh(x)."""

import numpy as np

from unladen.graph.ops.base import EPS32, Op


class Squash(Op):
    """Squashes."""

    name = "squash"

    def infer(self, node):
        return [(node.inputs[0].shape, "f32")]

    def reference(self, node, inputs, ctx):
        return [np.tanh(inputs[0])]

    def error_bound(self, node, inputs, ctx):
        return [4 * EPS32 * np.abs(np.tanh(inputs[0]))]
'''

CASES = '''
"""Squashing."""

from cases.base import Maker


def cases(rng):
    for n_tokens, n in [(1, 5), (7, 33)]:
        m = Maker(rng, n_tokens)
        yield m.case("squash", m.input("T", n))
'''

QUANT = '''
"""Eight weights as four-bit steps of a float32."""

import numpy as np

from unladen.quants.base import Quant


class Nibble8(Quant):
    """float32 scale, then codes of 4 bits."""

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
    """See above."""

    arch = "squashed"

    def feed_forward(self, g, x):
        return g.one("squash", super().feed_forward(g, x), name="ffn_squash")
'''

HEADER = '''// NIBBLE8: eight weights in 8 bytes.
#pragma once

#include <cstdint>
#include <cstring>

namespace unladen::cpu::UNLADEN_ISA {

struct NIBBLE8 {
    static constexpr const char *name = "NIBBLE8";
    static constexpr int block_size = 8, block_bytes = 8;
    static inline void dequantize(const uint8_t *__restrict block, float *__restrict y) {
        float scale;
        std::memcpy(&scale, block, 4);
        for (int i = 0; i < 4; ++i) {
            y[i] = scale * float((block[4 + i] & 15) - 8);
            y[i + 4] = scale * float((block[4 + i] >> 4) - 8);
        }
    }
};

}  // namespace unladen::cpu::UNLADEN_ISA
'''

KERNEL = '''// y = tanh(x).
#include <cmath>

#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Squash {
    Input x;
    Output y;

    explicit Squash(Fields &of) : x(of.input()), y(of.output()) {}

    void add(Builder &to) const {
        to.add(by_rows(y.rows, x.n_cols * 0.8, [a = *this](const Step &, int row) {
            for (int i = 0; i < a.x.n_cols; ++i) a.y.row(row)[i] = std::tanh(a.x.row(row)[i]);
        }));
    }
};

const Registered<Squash> registered("squash");

}  // namespace
}  // namespace unladen::cpu
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


def run(program: str, environment: Mapping[str, str], folder: Path, seed: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent), str(folder / "m.gguf"),
         str(seed)], env={**os.environ, **environment}, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


@pytest.fixture
def found(tmp_path: Path, rng: Any) -> dict[str, Any]:
    for kind, name, text in (("ops", "squash", OP), ("quants", "nibble8", QUANT),
                             ("models", "squashed", ARCHITECTURE)):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{name}.py").write_text(text)
    return run(PROGRAM, {"UNLADEN_PLUGIN_PATH": str(tmp_path)}, tmp_path, int(rng.integers(2**31)))


def test_three_files_make_a_new_model_run(found: dict[str, Any]) -> None:
    assert found["quants"] == ["F32", "NIBBLE8"]
    assert found["finite"] and found["n_written"] == 12
    # The bound allows float32 roundings of a few thousand sums, relative to the logits' spread.
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


ADDED = {"src/unladen/graph/ops/squash.py": OP, "tests/cases/squash.py": CASES,
         "src/unladen/quants/nibble8.py": QUANT, "src/unladen/models/squashed.py": ARCHITECTURE}
GENERATED = {"docs/reference/ops.md", "docs/reference/formats.md"}
"""Pages that tools/gen_pages.py writes anew."""
TAKE_IN = {
    "tests/models/test_registry.py": "", "tests/tools/test_architectures.py": "squashed",
    "tests/parity/test_architectures.py": "has_a_recipe and squashed",
    "tests/backends/test_ops.py": "squash or every_file",
    "tests/graph/test_references.py": "squash",
    "tests/quants/test_registry.py": "published", "tests/quants/test_dequantize.py": "NIBBLE8",
    "tests/quants/test_quantize.py": "NIBBLE8", "tests/gguf/test_check.py": "NIBBLE8",
    "tests/gguf/test_hostile.py": "unknown_types", "tests/tools/test_matrices.py": "",
    "tests/backends/cpu/test_dequantize.py": "NIBBLE8",
    "tests/backends/cpu/test_linear_kernels.py": "NIBBLE8",
    "tests/backends/wgpu/test_kernels.py": "NIBBLE8 or every_format",
    "tests/tools/test_generated.py": "gen_matrices", "tests/house/test_docs.py": "ops or architect",
    "tests/house/test_python.py": "documented"}
"""Tests that go through all architectures, ops or formats, and what of them sees the new ones."""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the sources beside the shared test data, with the module that was built."""
    root = tmp_path / "repository"
    leave = shutil.ignore_patterns("__pycache__", "*.so", "*.pyd", ".*_cache")
    for folder in ("src", "tests", "tools", "docs", "benchmarks", "examples", "cmake"):
        shutil.copytree(ROOT / folder, root / folder, ignore=leave)
    for file in ROOT.glob("[!.]*.*"):
        if file.is_file():
            shutil.copy(file, root)
    built = importlib.import_module("unladen._native").__file__
    assert built is not None
    shutil.copy(built, root / "src/unladen")
    if (ROOT.parent / "shared").is_dir():
        (tmp_path / "shared").symlink_to(ROOT.parent / "shared")
    return root


def hashes(root: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(root).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_each_in_the_tree(tree: Path, rng: Any) -> None:
    """Nothing else is edited. One command writes the generated pages; then the tests that go
    through everything pass, and say what they can't compare."""
    before = dict(hashes(tree))
    for name, text in ADDED.items():
        (tree / name).write_text(text.lstrip(), encoding="utf-8")
    environment = {"PYTHONPATH": os.pathsep.join(map(str, (tree / "src", tree / "tests"))),
                   "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, "tools/gen_pages.py"], cwd=tree, check=True,
                   env={**os.environ, **environment})
    after = dict(hashes(tree))
    assert {name for name in after if after[name] != before.get(name)} == {*ADDED, *GENERATED}
    assert "| `squash` |" in (tree / "docs/reference/ops.md").read_text(encoding="utf-8")
    assert "NIBBLE8" in (tree / "docs/reference/formats.md").read_text(encoding="utf-8")
    chosen = [f"({Path(file).name} and ({what}))" if what else Path(file).name
              for file, what in TAKE_IN.items()]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "0", "-p", "no:cacheprovider",
         *TAKE_IN, "-k", " or ".join(chosen)], cwd=tree, env={**os.environ, **environment},
        text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-2000:]
    skipped = " ".join(ran.stdout.split())
    for reason in ("no recipe for squashed", "the gguf package doesn't know NIBBLE8",
                   "NIBBLE8 has no header for the CPU"):
        assert reason in skipped or not (tree.parent / "shared").exists(), reason
    assert int(re.findall(r"(\d+) passed", ran.stdout)[-1]) > 40
    result = run(PROGRAM, environment, tree, int(rng.integers(2**31)))
    assert result["quants"] == ["F32", "NIBBLE8"] and result["n_written"] == 12
    assert result["difference"] < 1e-4 * max(1.0, result["spread"])


def test_a_kernel_more_is_a_file_more(tree: Path) -> None:
    """The build finds an op's file and a format's header for the CPU by itself, and they compile:
    the format as one of all formats, here at the level that every processor has."""
    if not (shutil.which("cmake") and shutil.which("ninja")):
        pytest.skip("needs CMake and Ninja")
    csrc = tree / "src/unladen/backends/cpu/csrc"
    (known,) = csrc.rglob("q1_0.h")  # lies where headers of formats do
    (csrc / "ops/squash.cc").write_text(KERNEL, encoding="utf-8")
    (known.parent / "nibble8.h").write_text(HEADER, encoding="utf-8")
    build = tree / "build"
    subprocess.run(["cmake", "-S", str(tree), "-B", str(build), "-G", "Ninja",
                    f"-DUNLADEN_HEADERS={tree}", "-DUNLADEN_TOGETHER=OFF"],
                   check=True, capture_output=True)
    every = [path.read_text(encoding="utf-8") for path in build.rglob("all.h")]
    assert any("nibble8.h" in text and "NIBBLE8" in text for text in every)
    commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    wanted = [each for each in commands if each["file"].endswith("ops/squash.cc")
              or ("isa_portable" in each["command"] and "dequantize.cc" in each["file"])]
    assert len(wanted) == 2
    for each in wanted:
        ran = subprocess.run(each["command"].replace(" -O3", " -O0"), cwd=each["directory"],
                             shell=True, text=True, capture_output=True, check=False)
        assert ran.returncode == 0, ran.stderr
