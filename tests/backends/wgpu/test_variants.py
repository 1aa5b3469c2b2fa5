"""Kernels that use more of the hardware: each is as right as the plain one, or isn't used."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import cases
from cases import running
from cases.base import Maker
from unladen import Model, quants
from unladen.backends import backend_of
from unladen.backends._gpu.lowering import registry
from unladen.backends.base import BackendOptions
from unladen.backends.wgpu import adapters, features, source
from unladen.backends.wgpu.backend import WgpuBackend
from unladen.errors import InvalidArgument, UnsupportedOp

Rng = np.random.Generator
CODED = sorted(q for q in quants.registry() if source.has_codes(q))


@pytest.fixture(params=sorted(features.WANTED))
def variant(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param not in features.available(adapters.adapter_of(0)):
        pytest.skip(f"the adapter has no {request.param}")
    monkeypatch.setenv(features.VARIABLE, request.param)
    return str(request.param)


@pytest.fixture
def backend(variant: str) -> WgpuBackend:
    return WgpuBackend()


@pytest.mark.parametrize("op", sorted(op for op, how in registry().items() if how.features))
def test_within_the_bound(op: str, variant: str, backend: WgpuBackend, rng: Rng) -> None:
    """Some of the op's cases, others each time."""
    device = backend.open("wgpu:0", BackendOptions())
    found = [case for case in cases.registry()[op](rng)
             if backend.supports(device, case.node)
             and backend.variant(device, case.node, BackendOptions()) == variant]
    assert bool(found) == (variant in registry()[op].features)
    for i in rng.permutation(len(found))[:6]:
        running.check(found[i], running.Bench(backend, found[i]).run(),
                      precise=variant == "subgroups", what=variant)


@pytest.mark.parametrize("quant", CODED)
def test_products(quant: str, variant: str, backend: WgpuBackend, rng: Rng) -> None:
    for n_tokens in (1, 3, 70):
        m = Maker(rng, n_tokens)
        n = quants.get(quant).block_size * int(rng.integers(1, 5))
        case = m.case("linear", m.input("T", n), weights={"w0": m.weight("w0", 70, n, quant=quant)})
        running.check(case, running.Bench(backend, case).run(), precise=variant == "subgroups",
                      what=f"{variant} {quant}")


def test_precise_ones_round_no_activations(variant: str, backend: WgpuBackend, rng: Rng) -> None:
    m = Maker(rng, 20)
    case = m.case("linear", m.input("T", 256), weights={"w0": m.weight("w0", 9, 256, quant="Q4_K")})
    run = running.Bench(backend, case, BackendOptions(precise=True))
    running.check(case, run.run(), precise=True, what=variant)


def test_what_the_adapter_has_and_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = adapters.adapter_of(0)
    there = features.available(adapter)
    for used in ("none", "int_dot", ",".join(sorted(there))):
        monkeypatch.setenv(features.VARIABLE, used)
        (first, *_) = WgpuBackend().devices()
        assert dict(first.features) == {name: name in used.split(",") for name in there}
    monkeypatch.setenv(features.VARIABLE, "int_dot,wings")
    with pytest.raises(InvalidArgument, match="wings") as error:
        WgpuBackend().devices()
    assert "int_dot" in error.value.hint


def test_an_adapter_without_a_feature_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is listed, since another one may have the feature; only opening it is an error."""
    monkeypatch.setattr(features, "WANTED", {"subgroups": ("wings",), "int_dot": ()})
    monkeypatch.setenv(features.VARIABLE, "subgroups,int_dot")
    (first, *_) = WgpuBackend().devices()
    assert dict(first.features) == {"int_dot": True}
    with pytest.raises(InvalidArgument, match="asks for subgroups"):
        WgpuBackend().open("wgpu:0", BackendOptions())


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Integer dot products of Q4_0 whose high halves count twice."""
    folder = source.FOLDER
    for path in folder.rglob("*.wgsl"):
        to = tmp_path / path.relative_to(folder)
        to.parent.mkdir(exist_ok=True)
        to.symlink_to(path)
    part = tmp_path / "parts/dot_rows.wgsl"
    text = part.read_text()
    part.unlink()
    wrong = text.replace("dot4I8Packed(c.y,", "2 * dot4I8Packed(c.y,")
    assert wrong != text
    part.write_text(wrong)
    monkeypatch.setattr(source, "FOLDER", tmp_path)
    monkeypatch.setenv(features.VARIABLE, "int_dot")
    yield
    backend = backend_of("wgpu")
    assert isinstance(backend, WgpuBackend)
    for name in ("wgpu:12", "wgpu:13"):
        backend._gpus.pop(name, None)


def test_a_wrong_one_gives_way_to_the_plain_kernel(
        broken: None, make_model: Callable[..., Path], caplog: pytest.LogCaptureFixture) -> None:
    path = make_model("llama", quant="Q4_0", n_embd=64, n_ff=96)
    prompt = [3, 4, 5, 6]
    with caplog.at_level(logging.WARNING), Model(path, devices=["wgpu:12"]) as model:
        found = model.logits(prompt)
    said = [r.getMessage() for r in caplog.records if "wrongly" in r.getMessage()]
    assert said and all("Q4_0 by int_dot" in s and "plain kernels are used" in s for s in said)
    with Model(path, devices=["reference"]) as model:
        np.testing.assert_allclose(found, model.logits(prompt), rtol=0, atol=1e-3)
    with pytest.raises(UnsupportedOp, match="int_dot"):
        Model(path, devices=["wgpu:13"], strict=True)
