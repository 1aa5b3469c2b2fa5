"""Cards that a machine surely lacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unladen.backends._gpu import absent, drivers
from unladen.backends._gpu.absent import lacks_cards


def test_a_machine_without_cards_of_a_maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                            ) -> None:
    """A bus without a card of the maker's says so. No bus says nothing, nor does Windows' Linux,
    which has its cards elsewhere."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(drivers, "PCI_DEVICES", tmp_path / "bus")
    monkeypatch.setattr(absent, "WINDOWS_CARDS", tmp_path / "dxg")
    monkeypatch.setattr(drivers, "cuda_device_count", lambda: 0)
    monkeypatch.setattr(drivers, "rocm_available", lambda: False)
    assert not lacks_cards("NVIDIA"), "no bus"
    card = tmp_path / "bus" / "0000:01:00.0"
    card.mkdir(parents=True)
    (card / "class").write_text("0x030000\n")
    (card / "vendor").write_text("0x10de\n")
    assert lacks_cards("AMD") and not lacks_cards("NVIDIA")
    monkeypatch.setattr(drivers, "rocm_available", lambda: True)
    assert not lacks_cards("AMD"), "its driver shows one"
    monkeypatch.setattr(drivers, "rocm_available", lambda: False)
    (tmp_path / "dxg").touch()
    assert not lacks_cards("AMD")
