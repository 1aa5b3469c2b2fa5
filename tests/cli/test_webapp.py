"""``unladen app`` as a process: a free port, a key, the browser."""

from __future__ import annotations

import re
import stat
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx

from server.serving import PATIENCE, Served, serving
from unladen.cli.webapp import can_show

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="its browser is a shell script")

NONE = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}


def page_of(served: Served, words: str) -> tuple[str, str]:
    """The address and the key that it says."""
    page = served.wait_for(rf"the page {words} (\S+)")
    address, _, key = page.partition("/#key=")
    return address, unquote(key)


def test_without_a_browser_it_prints_the_page(tmp_path: Path) -> None:
    with serving(tmp_path, "tiny", "--device", "cpu", command="app", **NONE) as served:
        address, key = page_of(served, "is at")
        assert len(key) > 30
        asked = f"{address}/ui/api/state"
        assert httpx.get(asked, timeout=PATIENCE).status_code == 401
        headers = {"Authorization": f"Bearer {key}"}
        state = httpx.get(asked, timeout=PATIENCE, headers=headers).json()
        assert state["allow_any"] and state["can_manage"]
        assert [each["id"] for each in state["models"]] == ["tiny"]


def test_the_browser_gets_the_key_in_a_file_of_this_user_alone(tmp_path: Path) -> None:
    browser, seen = tmp_path / "browser", tmp_path / "seen"
    browser.write_text(f'#!/bin/sh\npath="${{1#file://}}"\nstat -c %a "$path" > {seen}.mode\n'
                       f'cat "$path" > {seen}.html\necho "$@" > {seen}\n')
    browser.chmod(0o700)
    with serving(tmp_path, "--key", "a/b c&\"d", "--device", "cpu", command="app",
                 BROWSER=f"{browser} %s") as served:
        address, key = page_of(served, "opens at")
        assert key == 'a/b c&"d'
        served.wait_for("opens at")
        arguments = seen.read_text()
        assert key not in arguments and "key" not in arguments
        found = re.search(r'url=([^"]+)"', seen.with_name("seen.html").read_text())
        assert found is not None
        assert found[1] == f"{address}/#key=a%2Fb%20c%26%22d"
        assert int(seen.with_name("seen.mode").read_text(), 8) == stat.S_IRUSR | stat.S_IWUSR
        assert httpx.get(f"{address}/ui/api/state", timeout=PATIENCE,
                         headers={"x-api-key": key}).json()["models"] == []


def test_any_model_gets_the_options_of_the_command_line(tmp_path: Path) -> None:
    with serving(tmp_path, "--key", "k", "--device", "cpu", "--context-size", "300",
                 command="app", **NONE) as served:
        address, key = page_of(served, "is at")
        with httpx.Client(base_url=f"{address}/ui/api", timeout=PATIENCE,
                          headers={"x-api-key": key}) as client:
            plan = client.post("/plan", json={"ref": "tiny-chat"}).json()
            assert plan["context_size"] == 300
            assert client.post("/models/tiny-chat/load", json={}).status_code == 202
            model, = client.get("/state").json()["models"]
            assert (model["id"], model["options"]["context_size"]) == ("tiny-chat", 300)


def test_a_machine_without_a_display_shows_no_browser() -> None:
    assert not can_show({})
    assert not can_show({"DISPLAY": ""})
    assert can_show({"WAYLAND_DISPLAY": "wayland-0"})
