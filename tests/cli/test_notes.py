"""Notes on stderr: a GPU isn't used, a chat template was applied by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Run
from stub_driver import stub
from tiny_model import write_tiny
from unladen import Model, backends, gpu
from unladen.backends import Device
from unladen.backends._gpu import drivers
from unladen.cli._notes import note_devices, why_unused

QUICK = ("abc", "-n", "2", "--temp", "0")


def device(folder: Path, name: str, kind: str, vendor: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "class").write_text(kind + "\n")
    (folder / name / "vendor").write_text(vendor + "\n")


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PCI bus with a network card, a server's own display adapter and an NVIDIA card."""
    folder = tmp_path / "devices"
    device(folder, "0000:00:01.0", "0x020000", "0x8086")
    device(folder, "0000:00:02.0", "0x030000", "0x1a03")
    device(folder, "0000:01:00.0", "0x030200", "0x10de")
    monkeypatch.undo()
    monkeypatch.setattr(drivers, "PCI_DEVICES", folder)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("UNLADEN_DEVICES", raising=False)
    monkeypatch.delenv("UNLADEN_DEBUG", raising=False)
    return folder


def test_cards(bus: Path) -> None:
    assert gpu.cards() == ["NVIDIA"]
    device(bus, "0000:02:00.0", "0x038000", "0x1002")
    (bus / "0000:03:00.0").mkdir()
    assert gpu.cards() == ["NVIDIA", "AMD"]


def test_no_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a bus the cards are those that drivers show."""
    monkeypatch.undo()
    monkeypatch.setattr(drivers, "PCI_DEVICES", tmp_path / "nowhere")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(drivers, "cuda_device_count", lambda: 0)
    monkeypatch.setattr(drivers, "rocm_available", lambda: False)
    assert gpu.cards() == []
    monkeypatch.setattr(drivers, "cuda_device_count", lambda: 2)
    monkeypatch.setattr(drivers, "rocm_available", lambda: True)
    assert gpu.cards() == ["NVIDIA", "NVIDIA", "AMD"]


def test_a_card_counts_once(bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of the bus that its driver shows is one card."""
    assert bus.exists()
    monkeypatch.setattr(drivers, "cuda_device_count", lambda: 1)
    assert gpu.cards() == ["NVIDIA"]


@pytest.mark.usefixtures("bus")
@pytest.mark.parametrize("command", [("run", *QUICK), ("bench", "-p", "4", "-n", "0", "-r", "1"),
                                     ("perplexity", "--chunk", "64", "--text", "TEXT")])
def test_an_unused_gpu_is_said_once(unladen: Run, model: str, text_file: Path,
                                    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
                                    ) -> None:
    monkeypatch.setattr(backends, "why_no_hardware", lambda: ["no wgpu; pip install it"])
    monkeypatch.setattr("unladen.assembly.setup.default_devices",
                        lambda: backends.all_devices()[:1])
    name, *rest = [str(text_file) if word == "TEXT" else word for word in command]
    lines = [line for line in unladen(name, model, *rest).err.splitlines() if "GPU" in line]
    assert lines == ["note: a GPU is there and isn't used (NVIDIA): no wgpu; pip install it"]


@pytest.mark.usefixtures("bus")
@pytest.mark.parametrize("options", [("--device", "cpu"), ("-ngl", "0"), ("--json",)])
def test_what_was_asked_for_is_no_news(unladen: Run, model: str, options: tuple[str, ...]) -> None:
    ran = unladen("run", model, *QUICK, *options)
    assert ran.code == 0 and "GPU" not in ran.err


@pytest.mark.usefixtures("bus")
def test_a_variable_is_named(unladen: Run, model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLADEN_DEVICES", "cpu")
    assert "UNLADEN_DEVICES is cpu" in unladen("run", model, *QUICK).err


@pytest.mark.usefixtures("bus")
@pytest.mark.parametrize("command", [("run", *QUICK), ("bench", "-p", "4", "-n", "0", "-r", "1")])
@pytest.mark.parametrize("wish", ["99", "all"])
def test_layers_that_were_asked_for_in_vain(unladen: Run, model: str,
                                            monkeypatch: pytest.MonkeyPatch,
                                            caplog: pytest.LogCaptureFixture,
                                            command: tuple[str, ...], wish: str) -> None:
    """A warning says that all layers are on the CPU, and the note why."""
    monkeypatch.setattr(backends, "why_no_hardware", lambda: ["no wgpu; pip install it"])
    monkeypatch.setattr("unladen.assembly.setup.default_devices",
                        lambda: backends.all_devices()[:1])
    name, *rest = command
    err = unladen(name, model, *rest, "-ngl", wish).err
    assert caplog.text.count(f"n_gpu_layers={wish} has no effect: the model is on cpu:0 alone") == 1
    assert "isn't used (NVIDIA): no wgpu; pip install it" in err


def test_python_warns_of_layers_in_vain(model: str, caplog: pytest.LogCaptureFixture) -> None:
    with Model(model, devices=["cpu"], n_gpu_layers=99) as loaded:
        assert caplog.text.count("n_gpu_layers=99 has no effect") == 1
        loaded.place(devices=["null:0", "cpu"])
        assert loaded.gpu_layers == 3 and caplog.text.count("has no effect") == 1
        loaded.place(devices=["cpu"], n_gpu_layers="auto")
    with Model(model, devices=["cpu"], n_gpu_layers=0):
        assert caplog.text.count("has no effect") == 1


def test_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNLADEN_DEVICES", raising=False)
    monkeypatch.setattr(backends, "why_no_hardware", list)
    assert "container" in why_unused([])
    known, unknown = Device("wgpu:0", "a card", 1 << 30), Device("wgpu:1", "another", 0)
    assert "predicted to be faster" in why_unused([known]) and "wgpu:0" in why_unused([known])
    assert why_unused([known, unknown]) == "", "a warning has said it"


def test_reasons_of_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    from unladen.backends.wgpu import adapters
    monkeypatch.setattr(adapters, "may_have_hardware", lambda: False)
    assert backends.why_no_hardware() == []
    monkeypatch.setattr(adapters, "may_have_hardware", lambda: True)
    if not any(d.is_default for d in backends.all_devices()):
        (why,) = backends.why_no_hardware()
        assert "wgpu" in why and "install" in why


@pytest.mark.usefixtures("bus")
def test_a_card_that_a_named_device_uses(unladen: Run, model: str, monkeypatch: pytest.MonkeyPatch
                                         ) -> None:
    """Where CUDA runs on the card the note says how to use it, and nothing about drivers."""
    with stub.installed("cuda", runs=False, n_cards=2):
        monkeypatch.setattr("unladen.assembly.setup.default_devices",
                            lambda: backends.all_devices()[:1])
        ran = unladen("run", model, *QUICK)
    (line,) = [line for line in ran.err.splitlines() if "GPU" in line]
    assert line.endswith("(NVIDIA): no device is named: --device cuda:0 runs on it")


def test_cards_of_several_makers(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenCL's device isn't named beside that of a maker: it may be the same card."""
    card, software = Device("x:0", "", 1), Device("x:1", "", 1, is_software=True)
    there: dict[str, list[Device]] = {"opencl": [software]}
    monkeypatch.setattr(backends, "_hardware_of", lambda name: [
        d for d in there.get(name, []) if not d.is_software])
    assert backends.hardware_by_name() == []
    there["opencl"].append(card)
    assert backends.hardware_by_name() == [card]
    there.update(hip=[replace(card, name="hip:0")], cuda=[replace(card, name="cuda:0"), card])
    assert [d.name for d in backends.hardware_by_name()] == ["cuda:0", "hip:0"]


def test_a_driver_without_its_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver shows a card: the advice is what CUDA lacks, not another driver."""
    monkeypatch.delenv("UNLADEN_DEVICES", raising=False)
    monkeypatch.setattr(drivers, "cuda_device_count", lambda: 1)
    monkeypatch.setattr(drivers, "rocm_available", lambda: False)
    lacking = stub.backend("cuda", compilers=("libnone.so",))
    with stub.at_rest():
        real = backends._named
        monkeypatch.setattr(backends, "_named", lambda name: (
            lacking if name == "cuda" else real(name)))
        why = why_unused([])
    assert "can't be used: it needs NVRTC" in why and "unladen[cuda]" in why
    assert "device file" not in why


def test_software_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A device that computes on the processor under a driver's name is no GPU."""
    slow = Device("wgpu:0", "llvmpipe", 1, is_software=True)
    note_devices([slow], {slow}, {"devices": ["gpu"]})
    assert "wgpu:0 (llvmpipe), which computes on the processor" in capsys.readouterr().err
    note_devices([replace(slow, is_software=False)], {replace(slow, is_software=False)}, {})
    assert capsys.readouterr().err == ""


@pytest.fixture
def chat_model(tmp_path: Path, rng: np.random.Generator) -> str:
    """A model with a chat template."""
    return str(write_tiny(tmp_path / "chat.gguf", rng,
                          template="{% for m in messages %}{{ m.content }}{% endfor %}"))


def test_a_template_that_was_applied_by_hand(unladen: Run, model: str, chat_model: str) -> None:
    by_hand = "<|im_start|>user\nhi<|im_end|>"
    ran = unladen("run", chat_model, by_hand, "-n", "2")
    assert ran.code == 0 and len(ran.err.splitlines()) == 1
    assert ran.err.startswith("note: ") and "--raw" in ran.err
    for options in (["--raw"], ["--no-conversation"], ["-no-cnv"], ["--json"]):
        assert unladen("run", chat_model, by_hand, "-n", "2", *options).err == ""
    assert unladen("run", chat_model, *QUICK).err == ""
    assert unladen("run", model, by_hand, "-n", "2").err == "", "it has no template"
    assert json.loads(unladen("run", chat_model, *QUICK, "--json").out)["tokens"]
