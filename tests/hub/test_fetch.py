"""Tests of fetching, with a stand-in for the hub's client and a real cache."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from unladen.errors import DiskFull, InvalidArgument, ModelNotFound, UnladenError
from unladen.hub import HubFile, HubQuant, resolve_model
from unladen.hub.failures import Unreachable
from unladen.hub.fetch import fetch

hub = pytest.importorskip("huggingface_hub")
constants = pytest.importorskip("huggingface_hub.constants")
errors = pytest.importorskip("huggingface_hub.errors")
SHARDS = ["BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"]
COMMIT, OTHER = "0" * 40, "1" * 40


class Hub:
    """A stand-in for the hub, with ``files``, that downloads into the cache; ``asked`` lists the
    calls."""

    def __init__(self, cache: Path, files: Sequence[str]) -> None:
        self.cache = cache
        self.files = files
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.commits = [COMMIT]
        self.size: int | None = None

    def model_info(self, repo: str, *, revision: str, timeout: object, files_metadata: bool
                   ) -> SimpleNamespace:
        self._ask(f"list {repo}@{revision}")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name, size=self.size)
                                         for name in self.files])

    def hf_hub_download(self, repo: str, name: str, *, revision: str) -> str:
        self._ask(name)
        commit = self.commits[len(self.asked) % len(self.commits)]
        return str(cached(self.cache, repo, name, commit=commit, revision=revision))

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        if self.error:
            raise self.error


def cached(cache: Path, repo: str, name: str, *, commit: str = COMMIT, revision: str = "main"
           ) -> Path:
    """Put a file into ``cache`` as the hub's client lays it out."""
    home = cache / f"models--{repo.replace('/', '--')}"
    (home / "refs").mkdir(parents=True, exist_ok=True)
    (home / "refs" / revision).write_text(commit)
    blob = home / "blobs" / str(abs(hash(name)))
    blob.parent.mkdir(exist_ok=True)
    blob.write_bytes(name.encode())
    pointer = home / "snapshots" / commit / name
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(blob)
    return pointer


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "hub"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    return folder


@pytest.fixture
def pretend(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    made = Hub(cache, ["m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf", *SHARDS])
    monkeypatch.setattr(hub.HfApi, "model_info",
                        lambda api, repo, **parameters: made.model_info(repo, **parameters))
    monkeypatch.setattr("unladen.hub.fetch.find_host", lambda address: None)
    # This hub knows no checksums, so its client downloads.
    monkeypatch.setattr("unladen.hub.fetch.blob_of", lambda *_, **__: None)
    monkeypatch.setattr(hub, "hf_hub_download", made.hf_hub_download)
    return made


@pytest.fixture
def no_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("touched the network")

    monkeypatch.setattr(hub.HfApi, "model_info", refuse)
    monkeypatch.setattr(hub, "hf_hub_download", refuse)


def test_first_from_the_network_then_from_the_cache(pretend: Hub) -> None:
    path = resolve_model("org/repo:q8_0", aliases={})
    assert path.read_text() == "m-Q8_0.gguf"
    assert pretend.asked == ["list org/repo@main", "m-Q8_0.gguf"]
    assert resolve_model("hf.co/org/repo:Q8_0", aliases={}) == path
    assert resolve_model("hf://org/repo/m-Q8_0.gguf", aliases={}) == path
    assert len(pretend.asked) == 2
    assert fetch(HubQuant("org/repo", "Q8_0"), refresh=True) == path
    assert len(pretend.asked) == 4


def test_all_parts(pretend: Hub) -> None:
    for ref in (HubQuant("org/a", "BF16"), HubFile("org/b", SHARDS[1])):
        pretend.asked.clear()
        path = fetch(ref)
        assert path.name == "m-BF16-00001-of-00002.gguf"
        assert (path.parent / "m-BF16-00002-of-00002.gguf").exists()
        assert pretend.asked[-2:] == SHARDS
        assert fetch(ref, offline=True) == path


def test_parts_of_different_revisions(pretend: Hub) -> None:
    pretend.commits = [COMMIT, OTHER]
    with pytest.raises(UnladenError, match="different revisions"):
        fetch(HubQuant("org/repo", "BF16"))


def test_the_cache_does_not_choose_the_quant(pretend: Hub) -> None:
    cached(pretend.cache, "org/repo", "m-Q8_0.gguf")
    assert fetch(HubQuant("org/repo")).name == "m-Q4_K_M.gguf"
    assert pretend.asked


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("by_environment", [True, False])
def test_offline(cache: Path, monkeypatch: pytest.MonkeyPatch, by_environment: bool) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", by_environment)
    offline = not by_environment
    with pytest.raises(ModelNotFound, match="isn't in the cache") as caught:
        fetch(HubQuant("org/repo"), offline=offline)  # there is no cache at all
    assert ("HF_HUB_OFFLINE is set" in caught.value.hint) == by_environment
    assert str(cache) in caught.value.message
    path = cached(cache, "org/repo", "m-Q8_0.gguf")
    cached(cache, "org/other", "m-Q6_K.gguf")
    cached(cache, "org/repo", "m-Q2_K.gguf", commit=OTHER, revision="v2")
    cached(cache, "org/repo", "m-Q8_0.gguf")
    assert fetch(HubQuant("org/repo", "Q8_0"), offline=offline) == path
    assert fetch(HubQuant("org/repo"), offline=offline) == path  # the only one there is
    assert fetch(HubFile("org/repo", "m-Q8_0.gguf"), offline=offline) == path
    assert fetch(HubQuant("org/repo", "Q2_K", "v2"), offline=offline).name == "m-Q2_K.gguf"
    assert resolve_model("org/repo:Q8_0", aliases={}, offline=offline) == path
    with pytest.raises(ModelNotFound, match="no Q6_K") as caught:
        fetch(HubQuant("org/repo", "Q6_K"), offline=offline)
    assert "it has: Q8_0" in caught.value.hint
    assert ("HF_HUB_OFFLINE is set" in caught.value.hint) == by_environment
    with pytest.raises(ModelNotFound, match=r"no none\.gguf"):
        fetch(HubFile("org/repo", "none.gguf"), offline=offline)
    cached(cache, "org/repo", SHARDS[1])
    for ref in (HubQuant("org/repo", "BF16"), HubFile("org/repo", SHARDS[0])):
        with pytest.raises(ModelNotFound, match="00001-of-00002"):
            fetch(ref, offline=offline)


def http(name: str, status: int) -> Callable[[], Exception]:
    def make() -> Exception:
        client = importlib.import_module(errors.Response.__module__)  # httpx or httpx2
        request = client.Request("GET", "https://huggingface.co/org/repo")
        return getattr(errors, name)(f"status {status}",
                                     response=client.Response(status, request=request))
    return make


@pytest.mark.parametrize(("make", "kind", "message"), [
    (http("GatedRepoError", 403), UnladenError, "gated"),
    (http("RepositoryNotFoundError", 401), ModelNotFound, "the hub has no org/repo"),
    (http("RevisionNotFoundError", 404), ModelNotFound, "no revision main"),
    (http("RemoteEntryNotFoundError", 404), ModelNotFound, "has no "),
    (http("HfHubHTTPError", 500), UnladenError, "refused org/repo"),
    (http("HfHubHTTPError", 404), ModelNotFound, "the hub has no org/repo"),
    (http("HfHubHTTPError", 401), UnladenError, "refused org/repo: status 401"),
    (http("HfHubHTTPError", 407), UnladenError, "a proxy refused org/repo"),
    (http("HfHubHTTPError", 429), UnladenError, "too many requests"),
    (lambda: errors.LocalEntryNotFoundError("none"), Unreachable, "can't be reached"),
    (lambda: errors.OfflineModeIsEnabled("off"), Unreachable, "can't be reached"),
    (lambda: errors.HTTPError("no route"), Unreachable, "can't be reached"),
    (lambda: ConnectionResetError("reset"), Unreachable, "can't be reached"),
    (lambda: errors.HTTPError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), UnladenError,
     "certificate isn't trusted"),
    (lambda: ValueError("no JSON"), UnladenError, "isn't the hub's"),
    (lambda: OSError("Consistency check failed: file"), UnladenError, "broke off"),
    (lambda: PermissionError(13, "Permission denied"), UnladenError, "can't be stored"),
    (lambda: errors.HFValidationError("bad"), InvalidArgument, "isn't a valid repository name"),
    (lambda: OSError(28, "No space left on device"), DiskFull, "doesn't fit on the disk")])
@pytest.mark.parametrize("ref", [HubQuant("org/repo", "Q8_0"), HubFile("org/repo", "a.gguf")])
def test_errors(pretend: Hub, make: Callable[[], Exception], kind: type[UnladenError],
                message: str, ref: HubQuant | HubFile) -> None:
    pretend.error = make()
    with pytest.raises(kind, match=message) as caught:
        fetch(ref)
    assert type(caught.value) is kind
    assert caught.value.hint or kind is InvalidArgument
    assert caught.value.__cause__ is pretend.error


def test_what_the_hub_does_not_have(pretend: Hub) -> None:
    with pytest.raises(ModelNotFound, match="org/repo has no Q3_K_M") as caught:
        fetch(HubQuant("org/repo", "Q3_K_M"))
    assert "BF16, Q4_K_M, Q8_0" in caught.value.hint
    assert pretend.asked == ["list org/repo@main"]


def test_the_cache_serves_while_the_hub_does_not(pretend: Hub, caplog: pytest.LogCaptureFixture
                                                 ) -> None:
    path = cached(pretend.cache, "org/repo", "m-Q8_0.gguf")
    pretend.error = ConnectionResetError("reset")
    assert fetch(HubQuant("org/repo")) == path  # the only one there is
    assert fetch(HubQuant("org/repo", "Q8_0"), refresh=True) == path
    assert all("m-Q8_0.gguf is taken from the cache" in r.getMessage() for r in caplog.records)
    assert len(caplog.records) == 2
    with pytest.raises(Unreachable):
        fetch(HubQuant("org/repo", "Q6_K"))


@pytest.mark.parametrize("revision", ["..", ".", "main"])
def test_no_way_out_of_the_cache(cache: Path, revision: str) -> None:
    cached(cache, "org/repo", "m-Q8_0.gguf", commit="..")
    with pytest.raises(ModelNotFound, match="isn't in the cache"):
        fetch(HubQuant("org/repo", "Q8_0", revision), offline=True)


def test_room_is_looked_for_first(pretend: Hub) -> None:
    pretend.size = 1 << 60
    with pytest.raises(DiskFull, match=rf"needs {2 << 60} bytes, \d+ are free in "):
        fetch(HubQuant("org/repo", "BF16"))
    assert pretend.asked == ["list org/repo@main"]
    cached(pretend.cache, "org/repo", SHARDS[0])
    with pytest.raises(DiskFull, match=rf"needs {1 << 60} bytes"):
        fetch(HubQuant("org/repo", "BF16"))
