"""Downloads that are resumed, come damaged, or don't fit on the disk."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from hub.pretend_hub import CONTENT, Pretend
from unladen.errors import DiskFull, UnladenError
from unladen.hub import HubQuant, resolve_model
from unladen.hub.download import UNFINISHED
from unladen.hub.fetch import fetch

REF = HubQuant("org/repo", "Q8_0")
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def part_of(cache: Path) -> Path:
    return cache / "models--org--repo" / "blobs" / f"{SHA256}{UNFINISHED}"


def whole(path: Path, cache: Path) -> bool:
    """Whether ``path`` is the file, and nothing unfinished is left."""
    return (path.read_bytes() == CONTENT and Path(os.path.realpath(path)).name == SHA256
            and not list(cache.rglob("*incomplete")))


@pytest.mark.parametrize("lists_sums", [True, False])
def test_a_download_goes_on_in_the_next_process(hub: Pretend, cache: Path, lists_sums: bool
                                                ) -> None:
    hub.lists_sums = lists_sums
    hub.n_cut = 10**6
    with pytest.raises(UnladenError, match="broke off") as caught:
        fetch(REF)
    assert "it goes on where it ended" in caught.value.hint
    n_there = part_of(cache).stat().st_size
    assert 0 < n_there < len(CONTENT)
    hub.n_cut, hub.begins = 0, []
    path = fetch(REF)
    assert hub.begins == [n_there] and whole(path, cache)
    assert resolve_model("org/repo:Q8_0", aliases={}) == path
    assert hub.begins == [n_there]


def test_a_part_that_is_too_long_or_whole(hub: Pretend, cache: Path) -> None:
    for data, begins in ((CONTENT + b"more", [0]), (CONTENT, [])):
        part = part_of(cache)
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        hub.begins = []
        assert whole(fetch(REF), cache)
        assert hub.begins == begins
        (part.parent / SHA256).unlink()


def test_a_server_without_ranges(hub: Pretend, cache: Path) -> None:
    part_of(cache).parent.mkdir(parents=True)
    part_of(cache).write_bytes(CONTENT[:1000])
    hub.takes_ranges = False
    assert whole(fetch(REF), cache)


def test_a_damaged_download_is_fetched_again(hub: Pretend, cache: Path,
                                             caplog: pytest.LogCaptureFixture) -> None:
    hub.n_corrupt = 1
    assert whole(fetch(REF), cache)
    assert hub.begins == [0, 0] and "wrong checksum" in caplog.text


def test_a_damaged_part_is_fetched_again(hub: Pretend, cache: Path) -> None:
    part_of(cache).parent.mkdir(parents=True)
    part_of(cache).write_bytes(bytes(1000))
    assert whole(fetch(REF), cache)
    assert hub.begins == [1000, 0]


def test_what_stays_damaged_is_refused(hub: Pretend, cache: Path) -> None:
    hub.n_corrupt = 10**6
    with pytest.raises(UnladenError, match="aren't those that the hub describes") as caught:
        fetch(REF)
    assert caught.value.hint and len(hub.begins) == 2
    assert not [p for p in cache.rglob("*") if p.is_file() and p.stat().st_size > 100]
    hub.n_corrupt = 0
    assert whole(fetch(REF), cache)


def test_what_the_hubs_client_downloads_is_checked(hub: Pretend, cache: Path,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unladen.hub.fetch.blob_of", lambda *_, **__: None)
    hub.n_corrupt = 1
    with pytest.raises(UnladenError, match="wrong checksum"):
        fetch(REF)
    assert not list(cache.rglob("*.gguf"))
    assert whole(fetch(REF), cache)


LIMITED = """
    import resource, sys
    from huggingface_hub import constants
    constants.ENDPOINT = {address!r}
    template = "/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    constants.HUGGINGFACE_CO_URL_TEMPLATE = {address!r} + template
    from unladen.errors import DiskFull
    from unladen.hub import HubQuant
    from unladen.hub.fetch import fetch
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
    try:
        fetch(HubQuant("org/repo", "Q8_0"))
    except DiskFull as error:
        print(error.message, error.hint)
        sys.exit(3)
"""


def test_a_full_disk(hub: Pretend, cache: Path) -> None:
    """A limit on the size of files stands for the end of the disk."""
    pytest.importorskip("resource")
    program = textwrap.dedent(LIMITED).format(address=f"http://127.0.0.1:{hub.server_port}")
    environment = {k: v for k, v in os.environ.items() if not k.upper().endswith("_PROXY")}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=120, check=False,
                          env={**environment, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "0"})
    assert done.returncode == 3, done.stderr
    assert "500000 of 1024000 bytes of m-Q8_0.gguf are there" in done.stdout
    assert "goes on from there" in done.stdout
    assert part_of(cache).read_bytes() == CONTENT[:500_000]
    hub.begins = []
    assert whole(fetch(REF), cache)
    assert hub.begins == [500_000]


def test_room_counts_what_is_there(hub: Pretend, cache: Path, monkeypatch: pytest.MonkeyPatch
                                   ) -> None:
    class Disk:
        free = 5000

    monkeypatch.setattr("unladen.hub.fetch.shutil.disk_usage", lambda path: Disk)
    with pytest.raises(DiskFull, match=f"needs {len(CONTENT)} bytes, 5000 are free"):
        fetch(REF)
    part_of(cache).parent.mkdir(parents=True)
    part_of(cache).write_bytes(CONTENT[:-4000])
    assert whole(fetch(REF), cache)


def test_two_downloads_at_once(hub: Pretend, cache: Path) -> None:
    paths: list[Path] = []
    threads = [threading.Thread(target=lambda: paths.append(fetch(REF))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(paths) == 3 and hub.begins == [0] and whole(paths[0], cache)
