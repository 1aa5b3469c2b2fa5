"""The device's ops and models on Intel's runtime for processors, which has subgroups and packed
integer products. ``make intel`` installs it (790 MB) and runs this."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

VARIABLE = "UNLADEN_TEST_INTEL"
"""The environment variable that names the environment where pip installed the runtime."""
ROOT = Path(__file__).parents[3]
CHECK = """
from unladen.backends import backend_of
(device,) = backend_of("opencl").devices()
print(device.description, dict(device.features))
"""
LONGEST_S = 3600


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a process needs to find this runtime and no other."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"needs Intel's OpenCL runtime: make intel, or name its folder in {VARIABLE}")
    library = Path(folder).resolve() / "lib"
    assert (library / "libintelocl.so").exists(), library
    # The .icd file of the wheel names a path of the machine where it was built.
    (tmp_path / "intel.icd").write_text(f"{library / 'libintelocl.so'}\n")
    return {**os.environ, "OCL_ICD_VENDORS": str(tmp_path), "LD_LIBRARY_PATH": str(library)}


def test_its_features_are_found(environment: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", CHECK], env=environment, capture_output=True,
                          text=True, check=True)
    assert "Intel" in done.stdout
    assert "'subgroups': True" in done.stdout and "'int_dot': True" in done.stdout


@pytest.mark.timeout(LONGEST_S)
@pytest.mark.parametrize(("file", "chosen"), [
    ("test_ops.py", "opencl and (within_the_bound or precise)"),
    ("opencl/test_models_on_opencl.py", "token_for_token or same_text"),
    ("opencl/test_kernels_on_opencl.py", "products or rows_are_exact")])
def test_on_it(environment: dict[str, str], file: str, chosen: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
         f"-o=timeout={LONGEST_S}", "-k", chosen, str(ROOT / "tests/backends" / file)],
        cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and " skipped" not in done.stdout.splitlines()[-1]
