"""A new op runs on the CPU by one file, of which no other file knows."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[3] / "src/unladen"
COMPILER = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")

pytestmark = pytest.mark.skipif(COMPILER is None or not (SRC / "csrc").exists(),
                                reason="no C++ compiler, or no sources")

FADE = """
#include "backends/cpu/csrc/ops/by_rows.h"
#include "backends/cpu/csrc/ops/operations.h"

namespace unladen::cpu {
namespace {

struct Fade {
    Input x;
    Output y;
    int start;
    float factor;

    explicit Fade(Fields &of)
        : x(of.input()), y(of.output()), start(of.integer("start", 1)),
          factor(static_cast<float>(of.number("factor"))) {
        of.require(x.n_cols == y.n_cols, "x and y differ in columns");
    }

    void add(Builder &to) const {
        to.add(by_rows(x.rows, x.n_cols, [a = *this](const Step &, int row) {
            for (int i = 0; i < a.x.n_cols; i++)
                a.y.row(row)[i] = a.x.row(row)[i] * (i < a.start ? 1 : a.factor);
        }));
    }
};

const Registered<Fade> registered_fade("fade");

}  // namespace
}  // namespace unladen::cpu
"""

MAIN = """
#include "backends/cpu/csrc/crowding.cc"
#include "backends/cpu/csrc/huge_pages.cc"
#include "backends/cpu/csrc/ops/fields.cc"
#include "backends/cpu/csrc/ops/interleaving.cc"
#include "backends/cpu/csrc/ops/operations.cc"
#include "backends/cpu/csrc/pool.cc"
#include "backends/cpu/csrc/program.cc"

#include <cstdio>
#include <cstring>

using namespace unladen::cpu;

int main(int n, char **arguments) try {
    if (n > 3) register_operation(arguments[3], {});
    float x[2][3] = {{1, 2, 3}, {4, 5, 6}}, y[2][3] = {};
    const auto value = [](void *at) {
        return Value{reinterpret_cast<uintptr_t>(at), "f32", "T", 3};
    };
    Node node{};
    node.op = arguments[1];
    node.name = "n";
    node.inputs = {value(x)};
    node.outputs = {value(y)};
    node.attributes[arguments[2]] = 0.5;
    const Kernels kernels{};
    Program program(&kernels, 1, 1, nullptr);
    Builder builder(program, {kernels, 2, false});
    operation_kind(node.op).add(node, builder);
    Step step;
    step.n_tokens = 2;
    program.run(step, [] { return false; });
    for (const auto &row : y)
        for (float number : row) std::printf("%g ", number);
} catch (const std::exception &error) {
    std::printf("%s", error.what());
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs an op with an attribute; a third argument is an op to register once more."""
    assert COMPILER is not None
    folder = tmp_path_factory.mktemp("ops")
    (folder / "fade.cc").write_text(FADE)
    (folder / "main.cc").write_text('#include "fade.cc"\n' + MAIN)
    subprocess.run([COMPILER, "-std=c++20", "-O0", f"-I{SRC}", "-o", str(folder / "program"),
                    "-pthread", str(folder / "main.cc")], check=True)
    return folder / "program"


def says(program: Path, *arguments: str) -> str:
    return subprocess.run([str(program), *arguments], check=True, capture_output=True,
                          text=True).stdout


def test_one_file_is_enough(program: Path) -> None:
    assert says(program, "fade", "factor").split() == ["1", "1", "1.5", "4", "2.5", "3"]


def test_what_is_wrong_is_named(program: Path) -> None:
    assert says(program, "fade", "factr") == (
        "the CPU's kernel of fade (node n): it has no attribute factor")
    assert says(program, "shade", "factor") == "no file of csrc/ops/ registers the op shade"


def test_two_files_of_one_op(program: Path) -> None:
    assert says(program, "fade", "factor", "fade") == "two files of csrc/ops/ register fade"
