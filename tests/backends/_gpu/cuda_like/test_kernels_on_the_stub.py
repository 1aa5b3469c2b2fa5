"""Ops and whole models on the driver's stub, whose kernels the emulator runs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cases
from backends._gpu.storing import Norming, Storing
from cases import running
from cases.base import Maker
from emulator import build
from stub_driver.stub import Stub, installed
from unladen import Model
from unladen.backends import backend_of
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like import device
from unladen.backends._gpu.cuda_like.backend import CudaLikeBackend
from unladen.backends._gpu.cuda_like.program import CudaProgram
from unladen.backends._gpu.lowering import _products, registry
from unladen.backends.cuda.driver import CUDA

RAN_BY = "stub"
OPS = sorted(op for op, how in registry().items() if all(map(c_texts.has_kernel, how.kernels)))
HIP_OPS = ("add", "argmax", "embed", "kv_write", "rms_norm")
"""Ops that run by HIP's names in every run: only the calls differ. Others do so in make long."""


@pytest.fixture
def driver(name: str) -> Iterator[Stub]:
    with installed(name) as stub:
        yield stub


@pytest.mark.parametrize(("name", "op"), [
    *(("cuda", op) for op in OPS),
    *(pytest.param("hip", op, marks=[] if op in HIP_OPS else [pytest.mark.long]) for op in OPS)])
def test_ops(op: str, name: str, driver: Stub, rng: np.random.Generator) -> None:
    driver.set("eager", int(rng.integers(2)))
    backend = backend_of(name)
    found = [case for case in cases.registry()[op](rng)
             if backend.supports(running.device_of(backend), case.node)]
    case = found[rng.integers(len(found))]  # the emulator's own tests have them all
    bench = running.Bench(backend, case)
    for _ in range(2):  # recorded, then repeated
        running.check(case, bench.run(), precise=False, what=name)
        if case.kv is not None:
            for mine, wanted in zip(bench.cache(), running.on_paper(case)[2], strict=True):
                np.testing.assert_array_equal(mine, wanted)
    assert driver.count("kernels run")


@pytest.mark.parametrize("name", ["cuda", "hip"])
def test_products_and_norms_write_the_cache(name: str, driver: Stub, rng: np.random.Generator
                                            ) -> None:
    """On ``cuda`` weights of F16 are in tiles."""
    case = Storing(rng, "norm", 2, formats=["F16"] * 3, biases=True)
    assert case.check(backend_of(name), joined=True) == ["matvec"]
    assert driver.count("kernels run") == 1
    norms = Norming(rng, "neox", 2, kv_types=("F16", "F16"))
    assert norms.check(backend_of(name), joined=True) == ["norm_write"]


@pytest.mark.parametrize(("name", "most"), [("cuda", 4), ("hip", 1)])
def test_kernels_are_compiled_several_at_once(name: str, most: int, driver: Stub,
                                              rng: np.random.Generator,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    """By NVRTC, as many as there are cores. The compiler of AMD takes one at a time."""
    class FourCores:
        def n_cores(self) -> int:
            return 4

    monkeypatch.setattr(device, "this_system", FourCores)
    make, lock, are_all_in = build.library, threading.Lock(), threading.Event()
    inside, largest = 0, 0

    def library(*arguments: Any) -> Path:
        nonlocal inside, largest
        with lock:
            inside += 1
            largest = max(largest, inside)
        if inside >= most:
            are_all_in.set()
        are_all_in.wait(120)
        try:
            return make(*arguments)
        finally:
            with lock:
                inside -= 1

    monkeypatch.setattr(build, "library", library)
    (case, *_) = cases.registry()["moe"](rng)
    running.check(case, running.Bench(backend_of(name), case).run(), precise=False, what=name)
    assert driver.count("compiled") >= 4
    assert largest == most


@pytest.mark.parametrize("name", ["cuda", "hip"])
@pytest.mark.parametrize("model", ["stories260K-f32"])
def test_f32_token_for_token(model: str, name: str, driver: Stub, shared: Path) -> None:
    """The text of the reference, token for token."""
    cases = json.loads((shared / f"models/refs/{model}.json").read_text())["cases"]
    with Model(shared / f"models/{model}.gguf", devices=[f"{name}:0"], kv_type="f32") as loaded:
        assert {line.split()[2] for line in loaded.placement().splitlines()} == {f"{name}:0"}
        for case in islice(cases, 1):
            result = loaded.generate(case["prompt"], temperature=0.0, max_tokens=24)
            assert result.tokens == case["tokens"][:24]


@pytest.mark.parametrize(("devices", "options"), [
    (["cuda:0", "cuda:1"], {"tensor_split": [2, 3]}), (["cuda:0", "cpu:0"], {"n_gpu_layers": 3}),
    (["cuda:0"], {"batch_size": 8})], ids=["two cards", "a card and the CPU", "short steps"])
def test_divided_models(devices: list[str], options: dict[str, object], shared: Path) -> None:
    """The same text wherever the layers are, quantized."""
    path, prompt = shared / "models/stories260K-q8_0.gguf", "Once upon a time, there was a dog"
    with Model(path, devices=["cpu:0"], kv_type="f16", precise=True) as model:
        expected = model.generate(prompt, temperature=0.0, max_tokens=8).tokens
    with installed("cuda", n_cards=2) as driver:
        with Model(path, devices=devices, kv_type="f16", precise=True,
                   **options) as model:  # type: ignore[arg-type]
            used = {line.split()[2] for line in model.placement().splitlines()}
            assert used == set(devices)
            assert model.generate(prompt, temperature=0.0, max_tokens=8).tokens == expected
        assert driver.count("cuGraphLaunch") >= 7


@pytest.mark.parametrize(("n_tokens", "most", "width", "launch"), [
    (131, 227 << 10, 128, "cuLaunchKernelEx"), (131, 227 << 10, 128, "cuLaunchKernel"),
    (70, 100 << 10, 64, "cuLaunchKernelEx"), (70, 48 << 10, 32, "cuLaunchKernelEx"),
    (131, 0, 32, "cuLaunchKernel")])
def test_launches_give_workgroups_memory(n_tokens: int, most: int, width: int, launch: str,
                                         rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
                                         ) -> None:
    """More than a launch may without being asked, where the card has it. The stub refuses a launch
    that wasn't asked for, and tells of one that gives less than the kernel takes."""
    monkeypatch.setattr(_products, "ENOUGH_TILES", 1)
    if launch == "cuLaunchKernel":
        monkeypatch.setenv(CUDA.features_variable, "subgroups,int_dot,mma,wgmma")
    with installed("cuda") as driver:
        backend = backend_of("cuda")
        m = Maker(rng, n_tokens)
        case = m.case("linear", m.input("T", 128),
                      weights={"w0": m.weight("w0", 272, 128, quant="Q8_0")})
        running.device_of(backend)
        assert isinstance(backend, CudaLikeBackend)
        monkeypatch.setattr(backend.gpu("cuda:0"), "launched_bytes", most)
        bench = running.Bench(backend, case)
        running.check(case, bench.run(), precise=False, what="cuda")
        program = bench.program
        assert isinstance(program, CudaProgram)
        _, size = program.step.pack()
        ran = [(d.constants["TN"], bound.kernel.source.launched_bytes)
               for d, bound in zip(program.lowered.dispatches, program.dispatches, strict=True)
               if d.kernel == "matmul_mma" and d.grid(size)]
        assert ran == [(width, 8 * 128 * width)]
        n_sizes = sum(d.kernel == "matmul_mma" for d in program.lowered.dispatches)
        assert driver.count("cuFuncSetAttribute") == (n_sizes if most else 0)
        assert driver.count("cuLaunchKernelEx") == (
            driver.count("cuLaunchKernel") if launch == "cuLaunchKernelEx" else 0)
