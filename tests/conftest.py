"""Fixtures that every test may use."""

from __future__ import annotations

import dataclasses
import gc
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest

# Makes ``cases`` and ``factory`` importable. The path comes last, so that no folder of tests hides
# a package.
sys.path.append(str(Path(__file__).parent))

# A shell's background jobs ignore SIGINT, and the programs that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes is the machine's affair: a busy one fails no test.
hypothesis.settings.register_profile("unladen", deadline=None, suppress_health_check=[
    hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large])
hypothesis.settings.load_profile("unladen")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector pass over the tests themselves: they are half a million objects,
    and stay to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared test data beside the project; skips where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"needs the shared test data in {SHARED}")
    return SHARED


@pytest.fixture(autouse=True, scope="session")
def _no_default_gpu() -> Iterator[None]:
    """A test that names no device runs on the CPU, also on a machine with a GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unladen.backends.wgpu.gpu.hardware", list)
        yield


@pytest.fixture(autouse=True, scope="session")
def _patient_clients() -> None:
    """A request of httpx that names no limit waits for a busy machine, too: five seconds are its
    own default."""
    try:
        from httpx._config import DEFAULT_TIMEOUT_CONFIG as default
    except ImportError:
        return  # tests that ask a server skip where there is no httpx
    default.connect = default.read = default.write = default.pool = 120.0


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """A random generator with a new seed for each run, which is printed to repeat a failure. It is
    that of NumPy's own generator, too, from which the emulator takes its orders of threads."""
    seed = secrets.randbits(32)
    print(f"rng seed: {seed}")
    np.random.seed(seed)
    return np.random.default_rng(seed)


@pytest.fixture
def make_model(tmp_path: Path, rng: np.random.Generator) -> Callable[..., Path]:
    """Writes a tiny random model: ``make_model("llama", n_embd=64, quant="Q8_0")``; sizes as in
    :class:`factory.Shape`, the rest as in :func:`factory.write_model`."""
    from factory import Shape, write_model

    sizes = {field.name for field in dataclasses.fields(Shape)}

    def make(arch: str = "llama", **arguments: Any) -> Path:
        shape = Shape(arch, **{k: v for k, v in arguments.items() if k in sizes})
        rest = {k: v for k, v in arguments.items() if k not in sizes}
        return write_model(tmp_path / f"{secrets.token_hex(4)}.gguf", rng, shape, **rest)
    return make


@pytest.fixture
def make_bert(tmp_path: Path, rng: np.random.Generator) -> Callable[..., Path]:
    """Writes a tiny random encoder: ``make_bert(pooling_type=1)``; keys of its metadata."""
    from factory import write_bert

    def make(**keys: Any) -> Path:
        return write_bert(tmp_path / f"{secrets.token_hex(4)}.gguf", rng, keys)
    return make
