"""Ops and models on Intel's runtime for processors, through OpenCL, and through SYCL with dpctl.

The runtime has subgroups and packed integer products. ``make intel`` installs it and runs this.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

VARIABLE = "UNLADEN_TEST_INTEL"
"""The environment variable that names the environment where pip installed the runtime."""
ROOT = Path(__file__).parents[2]
CHECK = """
from unladen.backends import backend_of
(device,) = backend_of({!r}).devices()
print(device.description, dict(device.features))
"""
LONGEST_S = 3600


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a process needs to find this runtime, no other one, and dpctl."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        pytest.skip(f"needs Intel's OpenCL runtime: make intel, or name its folder in {VARIABLE}")
    library = Path(folder).resolve() / "lib"
    assert (library / "libintelocl.so").exists(), library
    # The .icd file of the wheel names a path of the machine where it was built.
    (tmp_path / "intel.icd").write_text(f"{library / 'libintelocl.so'}\n")
    # dpctl alone: the environment has a NumPy of its own.
    (package,) = library.glob("python3*/site-packages/dpctl")
    (tmp_path / "python").mkdir()
    (tmp_path / "python/dpctl").symlink_to(package)
    paths = [*filter(None, [os.environ.get("PYTHONPATH")]), str(tmp_path / "python")]
    return {**os.environ, "OCL_ICD_VENDORS": str(tmp_path), "LD_LIBRARY_PATH": str(library),
            "PYTHONPATH": os.pathsep.join(paths)}


@pytest.mark.parametrize("backend", ["opencl", "sycl"])
def test_its_features_are_found(environment: dict[str, str], backend: str) -> None:
    done = subprocess.run([sys.executable, "-c", CHECK.format(backend)], env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert backend == "sycl" or "Intel" in done.stdout
    assert "'subgroups': True" in done.stdout and "'int_dot': True" in done.stdout


@pytest.mark.timeout(2 * LONGEST_S)
@pytest.mark.parametrize(("file", "chosen"), [
    ("test_ops.py", "opencl and within_the_bound"),
    ("opencl/test_models_on_opencl.py", "token_for_token or same_text"),
    ("opencl/test_kernels_on_opencl.py", "products or rows_are_exact"),
    ("test_ops.py", "sycl and within_the_bound"),
    ("sycl/test_sycl.py", "")])
def test_on_it(environment: dict[str, str], file: str, chosen: str,
               request: pytest.FixtureRequest) -> None:
    record = request.config.getoption("--ran", default=None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider",
         f"-o=timeout={LONGEST_S}", "-k", chosen, str(ROOT / "tests/backends" / file),
         *(["-p", "ran", "--ran", str(record)] if record else [])],
        cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and " skipped" not in done.stdout.splitlines()[-1]
