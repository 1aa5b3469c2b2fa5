"""Which weights a device with matrix units takes in tiles, and how a plan counts and cuts them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends._gpu.emulated import EmulatedBackend, memory_of
from cases import running
from cases.base import Case, Maker
from emulator.backend import EmulatorBackend
from unladen import quants
from unladen.backends._gpu import c_texts
from unladen.backends._gpu.cuda_like.found import LONGEST_BINDING
from unladen.backends._gpu.step import Size
from unladen.backends.base import BackendOptions
from unladen.errors import OutOfMemory
from unladen.schedule.needs import needs_of
from unladen.schedule.trust import probe
from unladen.schedule.trust.probe import Sample

Rng = np.random.Generator
FEATURES = frozenset({"subgroups", "int_dot", "mma"})


def backend(**more: Any) -> EmulatedBackend:
    return EmulatedBackend(c_texts, **{"features": FEATURES, **more})


def product(rng: Rng, *formats: str, n_out: int = 64) -> Case:
    m = Maker(rng, 20)
    return m.case("linear", m.input("T", 512), weights={
        f"w{i}": m.weight(f"w{i}", n_out, 512, quant=quant) for i, quant in enumerate(formats)})


def format_of(own: EmulatedBackend, case: Case, role: str = "w0") -> str | None:
    return own.weight_format(own.target.device, case.node, case.node.weights[role])


def test_tiles_are_for_matrix_units(rng: Rng) -> None:
    case = product(rng, "Q4_K")
    assert format_of(backend(), case) == "Q4_K/tiles"
    assert format_of(backend(features=FEATURES - {"mma"}), case) == "Q4_K"
    assert format_of(backend(), product(rng, "F32")) == "F32"
    assert format_of(backend(), product(rng, "Q4_K", n_out=37)) == "Q4_K"
    assert format_of(backend(), product(rng, "IQ2_XXS")) == "IQ2_XXS"


def test_a_pretended_device_has_no_matrix_units(rng: Rng) -> None:
    own, case = backend(), product(rng, "Q4_K")
    pretended = replace(own.target.device, is_pretend=True)
    assert own.weight_format(pretended, case.node, case.node.weights["w0"]) == "Q4_K"


def test_wrong_matrix_units_are_forgone(rng: Rng) -> None:
    own, case = backend(), product(rng, "Q4_K")
    device = own.target.device
    in_tiles = replace(case.node, weights={
        role: replace(w, quant=f"{w.quant}/tiles") for role, w in case.node.weights.items()})
    assert own.variant(device, in_tiles, BackendOptions()) == "int_dot, mma, subgroups"
    own.forgo_variant(device, in_tiles)
    assert own.variant(device, in_tiles, BackendOptions()) == ""
    assert format_of(own, case) == "Q4_K"
    assert format_of(own, product(rng, "Q6_K")) == "Q6_K/tiles"


@pytest.mark.parametrize(("quant", "rows"), [
    ("Q4_K", [8, 16, 32, 64, 65]), ("F16", [4, 8, 16, 17])])
def test_a_trial_has_steps_for_each_kernel(quant: str, rows: Sequence[int], rng: Rng,
                                           tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                           ) -> None:
    """A kernel for other numbers of rows than a trial's other steps have is tried, too."""
    own, case = EmulatorBackend(FEATURES), product(rng, quant)
    device = own.target.device
    in_tiles = replace(case.node, weights={
        role: replace(w, quant=f"{w.quant}/tiles") for role, w in case.node.weights.items()})
    assert own.trial_rows(device, in_tiles, BackendOptions()) == rows
    assert own.trial_rows(device, case.node, BackendOptions()) == []
    monkeypatch.setattr(probe, "backend_of", lambda name: own)
    formats = {"w0": f"{quant}/tiles"}
    most = rows[-2]
    samples = [Sample.of(case.node, formats, {}, case.layout, some) for some in ((), (most,))]
    assert [probe.fault.__wrapped__(device, BackendOptions(), sample, "mma")
            for sample in samples] == [None, None]
    shutil.copytree(c_texts.FOLDER, tmp_path / "c")
    text = (tmp_path / "c/matvec_mma.h").read_text()
    whole = "with_bias(args, which, product, row);"
    assert whole in text
    (tmp_path / "c/matvec_mma.h").write_text(text.replace(
        whole, f"{whole}\n  if (NT * X_GROUPS == {most}u) value += 8.0f;"))
    monkeypatch.setattr(c_texts, "FOLDER", tmp_path / "c")
    samples = [Sample.of(case.node, formats, {}, case.layout, some) for some in ((), (most,))]
    found = [probe.fault.__wrapped__(device, BackendOptions(), s, "mma") for s in samples]
    assert quant == "F16" or found[0] is None
    assert "off by 8" in str(found[1])


def test_a_plan_counts_tiles_and_does_not_call_them_a_conversion(
        rng: Rng, caplog: pytest.LogCaptureFixture) -> None:
    own, case = backend(), product(rng, "Q4_K")
    device = own.target.device
    with caplog.at_level(logging.WARNING):
        (need,) = needs_of({case.node: device}, use_mmap=True, strict=True,
                           format_of=own.weight_format)
    assert not caplog.records
    assert need.quant == "Q4_K/tiles" and not need.mapped
    assert need.nbytes == need.weight.nbytes_in("Q4_K")
    assert need.row_bytes == 16 * need.weight.row_bytes


def test_memory_is_cut_between_tiles(rng: Rng) -> None:
    """A device that binds 600 rows at once gets pieces of 592."""
    case = product(rng, "Q4_K", n_out=640)
    row = quants.get("Q4_K").row_bytes(512)
    own = backend(max_binding=600 * row, alignment=16)
    program: Any = running.Bench(own, case).program
    sizes = {memory_of(d.ranges)["w"].nbytes for d in program.lowered.dispatches if d.quant}
    assert sizes == {592 * row, 48 * row}


def test_weights_of_several_formats_share_what_x_becomes(rng: Rng) -> None:
    program: Any = running.Bench(backend(), product(rng, "Q4_K", "F16", "Q8_0")).program
    kernels = [d.kernel for d in program.lowered.dispatches]
    assert kernels.count("quantize") == kernels.count("split_rows") == 1
    assert kernels.count("matmul_mma") == 6


def chosen(own: EmulatedBackend, quant: str, n_tokens: int, n_out: int, rng: Rng
           ) -> tuple[int, int, int]:
    """Rows of w and of x in the tiles that a step takes, and their number."""
    m = Maker(rng, n_tokens)
    case = m.case("linear", m.input("T", 256),
                  weights={"w0": m.weight("w0", n_out, 256, quant=quant)})
    program: Any = running.Bench(own, case).program
    size = Size(n_tokens, 1, 1, 1, False, frozenset())
    (found,) = [(d.constants["TM"], d.constants["TN"], int(np.prod(groups)))
                for d in program.lowered.dispatches
                if "TM" in d.constants and (groups := d.grid(size)) is not None]
    return found


@pytest.mark.parametrize(("n_tokens", "n_out", "wanted"), [
    (2048, 4096, (256, 128, 256)), (512, 8192, (256, 128, 128)), (512, 4096, (128, 128, 128)),
    (100, 32768, (256, 128, 128)), (64, 16384, (128, 64, 128)), (512, 1024, (64, 32, 256))])
def test_tiles_of_four_warps(n_tokens: int, n_out: int, wanted: tuple[int, int, int], rng: Rng
                             ) -> None:
    """The widest that fill a GPU, and no wider than the step has rows."""
    own = backend(features=FEATURES | {"wgmma"})
    quant = "F16" if n_tokens <= 64 else "Q8_0"  # int8 has another kernel for so few rows
    assert chosen(own, quant, n_tokens, n_out, rng) == wanted


@pytest.mark.parametrize(("n_tokens", "n_out", "wanted"), [
    (512, 128, (16, 64, 64)), (512, 1024, (64, 64, 128)), (2048, 2048, (128, 128, 256))])
def test_small_products_have_more_tiles(n_tokens: int, n_out: int, wanted: tuple[int, int, int],
                                        rng: Rng) -> None:
    """Such as a router's, which has few rows of w."""
    assert chosen(backend(), "F32", n_tokens, n_out, rng) == wanted


def test_rows_of_x_whose_parts_no_binding_holds_are_refused(rng: Rng) -> None:
    """Kernels count bytes of a binding in 32 bits. Three parts have more bytes than x itself."""
    assert LONGEST_BINDING < 1 << 32
    m = Maker(rng, 256)
    case = m.case("linear", m.input("T", 512),
                  weights={"w0": m.weight("w0", 64, 512, quant="BF16")})
    for features in (FEATURES, FEATURES | {"wgmma"}):
        running.Bench(backend(features=features, max_binding=2 << 20), case)
        with pytest.raises(OutOfMemory, match="batch_size"):
            running.Bench(backend(features=features, max_binding=700 << 10), case)
