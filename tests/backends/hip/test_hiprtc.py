"""AMD's run-time compiler takes the C family, without a GPU, where its libraries are installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import backends.cuda.gate as kernels
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.binaries import Binaries
from unladen.backends._gpu.cuda_like.compiler import compiler_of
from unladen.backends._gpu.cuda_like.trial import refuses
from unladen.backends.hip.driver import HIP, chip_named

CHIPS = ("gfx906", "gfx90a", "gfx1030")
SECONDS = 6.0
"""How long texts of a chip are drawn and compiled."""
RUNNER = Path(__file__).with_name("hiprtc.py")


def compiled(chip: str, texts: list[str], seconds: float = 600.0) -> list[str]:
    """What the compiler says of the texts; "" for code. The last one may say how it ended."""
    done = subprocess.run([sys.executable, str(RUNNER)], capture_output=True, text=True,
                          input=json.dumps({"chip": chip, "seconds": seconds, "texts": texts}))
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return said if done.returncode == 0 else [*said, f"it ends the process: {done.stderr[-500:]}"]


@pytest.fixture(scope="module", autouse=True)
def _hiprtc() -> None:
    if compiler_of(HIP) is None:
        pytest.skip("needs hiprtc (Debian: apt install libamdhip64-5)")


@pytest.mark.parametrize("chip", CHIPS)
def test_some_kernels(chip: str, rng: np.random.Generator) -> None:
    found = chip_named(chip)
    assert not isinstance(found, str)
    names: dict[str, list[kernels.Text]] = {}
    for text in kernels.texts(found.abilities, port=HIP.port):
        names.setdefault(text.name.split()[0], []).append(text)
    drawn = [each[rng.integers(len(each))] for each in names.values()]
    drawn = [drawn[i] for i in rng.permutation(len(drawn))]
    said = compiled(chip, [text.text for text in drawn], SECONDS)
    wrong = [f"{text.name}\n{what}" for text, what in zip(drawn, said, strict=False) if what]
    print(f"{chip}: {len(said)} of {len(drawn)} kernels")
    assert said and not wrong, "\n".join(wrong)


def test_a_wrong_text_is_told() -> None:
    head = (c_texts.FOLDER / "ports/hip.h").name
    (said,) = compiled("gfx906", [
        f'#line 1 "{head}"\n__global__ void f(float *y) {{ *y = what; }}'])
    assert "what" in said and "hip.h:1" in said


def test_a_compiler_that_ends_the_process_is_refused(tmp_path: Path) -> None:
    """Debian's hiprtc has no library for newer chips, and aborts. What was found is kept."""
    kept = Binaries(tmp_path)
    assert refuses(HIP, "5.2", "gfx906", kept) == ""
    why = refuses(HIP, "5.2", "gfx9999", kept)
    assert why.startswith("its compiler can't make code for gfx9999 (")
    assert why.endswith("): update AMD's HIP runtime")
    assert len(list(tmp_path.iterdir())) == 2
    assert refuses(HIP, "5.2", "gfx9999", kept) == why
