"""A part imports only what stands above it in the list below."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator

import pytest

from house.rules import BACKENDS
from house.tree import Source, package_sources

GROUND = {"types", "errors", "discover", "_native", "parameters"}
ORDER = {
    # part: what it may import beside itself and GROUND, all of it from further up
    "types": "",
    "errors": "",
    "discover": "",
    "_native": "",
    "parameters": "",  # what public functions of every part take
    "paths": "",  # what a name leads to, for everything that opens files
    "storage": "paths",
    "hub": "paths",
    "tokenizer": "",
    "sample": "",
    "quants": "",
    "gguf": "storage quants",
    "graph": "quants",
    "models": "gguf quants graph",
    "backends": "storage quants graph",
    "gpu": "backends",  # the public face of backends/_gpu/drivers.py
    "cache": "",
    "schedule": "quants graph backends",
    "runtime": "quants graph backends cache schedule",
    "engine": "tokenizer sample graph cache schedule runtime",
    "assembly": "quants gguf graph models backends cache schedule runtime engine",
    "chat": "hub tokenizer sample engine",  # Go templates, which hub reads for Ollama's store
    "api": "storage hub tokenizer sample gguf graph models backends cache schedule runtime engine "
           "assembly chat",
    # dialects, the supervisor, and the worker, which alone sees api and what its requests have
    "measure": "tokenizer gguf graph models backends cache schedule runtime engine assembly api",
    "quantizing": "paths quants gguf models backends",
    "lm_eval": "api",  # the front door as another program calls it
    "__init__": "sample backends gpu api measure quantizing",
    "server": "hub tokenizer engine chat api __init__",  # the worker alone sees api
    # chat: what an answer consists of, and how tools are read
    "cli": "storage hub tokenizer sample quants gguf graph models backends gpu schedule assembly "
           "chat api server measure quantizing __init__",
    "__main__": "cli",
}
SHARED_GROUND = {f"unladen.backends.{name}" for name in (
    "base", "_host", "_cgroups", "_system", "_system_posix", "_system_linux", "_system_mac",
    "_system_windows")}
"""Modules of ``backends`` that every backend may import, and every part that ORDER lets."""
GPU_BACKENDS = {"cuda", "hip", "metal", "opencl", "sycl", "wgpu"}
"""Backends that use the shared dispatch in ``backends/_gpu``. A new driver is added here."""
EXCEPTIONS = {(module, "unladen.backends.cpu.features") for module in (
    "unladen.cli.bench", "unladen.cli.doctor", "unladen.quantizing", "unladen.quantizing.write")
    } | {("unladen.cli._completion", "unladen.backends.cpu.numa"),
         ("unladen.gpu", "unladen.backends._gpu.drivers"),
         ("unladen.backends.ggml.library", "unladen.backends._gpu.forks"),
         ("unladen.cli.doctor", "unladen.backends._gpu.lowering"),
         ("unladen.cli.doctor", "unladen.backends._gpu.binaries"),
         ("unladen.server.description", "unladen")}
"""Imports from another part that are allowed: the processor's features, the placing of its threads,
one public facade, what drivers do in a forked child, the list of plug-ins that are left out, the
folder of compiled kernels, and the package's version."""
THIRD_PARTY = {"numpy"}
"""Packages that a module may import at its top; other packages are imported inside functions."""
SERVER_PARTY = {"prometheus_client", "pydantic", "pydantic_core", "starlette", "uvicorn"}
"""Packages that a module of the server may import at its top: no other part imports the server
before it is asked for."""


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every module that ``source`` imports, also inside functions."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{source.path}:{node.lineno}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield node.lineno, inner if inner in _MODULES else str(node.module)


_MODULES = frozenset(s.module for s in package_sources()) | {
    f"unladen._native.{part}" for part in ("cpu", "gguf", "sample", "tokenizer")}


def _part(module: str) -> str:
    return ".".join(module.split(".")[1:2]) or "__init__"


def wrong(source: Source) -> Iterator[tuple[int, str]]:
    """Imports of ``source`` that the rules forbid."""
    allowed = GROUND | {source.part} | set(ORDER[source.part].split())
    for line, target in imports(source):
        if target.partition(".")[0] != "unladen" or (source.module, target) in EXCEPTIONS:
            continue
        if _part(target) not in allowed:
            yield line, f"{source.part} imports {target}"
        elif _part(target) == "backends" and not _may_see(source.module, target):
            yield line, f"{source.module} imports the backend {target}"
        elif _is_private_of_other(source.module, target):
            yield line, f"{target} is private to its package"


def _may_see(module: str, target: str) -> bool:
    backend, own = target.split(".")[2:3], module.split(".")[1:3]
    if backend == ["_gpu"]:
        return own in [["backends", name] for name in ("_gpu", *GPU_BACKENDS)]
    return not set(backend) & BACKENDS or own == ["backends", *backend]


def _is_private_of_other(module: str, target: str) -> bool:
    words = target.split(".")
    at = next((i for i, word in enumerate(words) if word.startswith("_")), None)
    if at is None or words[at] == "_native" or target in SHARED_GROUND:
        return False
    return module.split(".")[:at] != words[:at]


def test_every_part_has_its_place() -> None:
    parts = {s.part for s in package_sources()}
    assert parts <= set(ORDER), "give these a place in ORDER"
    seen = set()
    for part, names in ORDER.items():
        assert set(names.split()) <= seen, f"{part} imports something from further down"
        seen.add(part)


def test_imports_go_one_way() -> None:
    found = [f"{s.path}:{line}: {what}" for s in package_sources() for line, what in wrong(s)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("path", "code"), [
    ("src/unladen/quants/new.py", "from unladen.gguf import open_gguf"),
    ("src/unladen/models/new.py", "def f():\n    from unladen.backends.base import Backend"),
    ("src/unladen/hub/new.py", "import unladen.gguf.reader"),
    ("src/unladen/engine/new.py", "from unladen import api"),
    ("src/unladen/engine/new.py", "from unladen.backends.cpu import create"),
    ("src/unladen/backends/null/new.py", "from unladen.backends.cpu.compile import LOWERINGS"),
    ("src/unladen/backends/_gpu/new.py", "from unladen.backends.wgpu import source"),
    ("src/unladen/backends/cpu/new.py", "from unladen.backends._gpu.memory import Range"),
    ("src/unladen/backends/new.py", "from unladen.backends._gpu.lowering import registry"),
    ("src/unladen/gguf/new.py", "from unladen.quants._bits import half"),
])
def test_wrong_way_is_noticed(path: str, code: str) -> None:
    assert list(wrong(Source(path, code)))


def test_third_parties_wait() -> None:
    """Outside the command line and the server a module imports no third party but NumPy at its
    top."""
    more = {"cli": {"typer"}, "server": SERVER_PARTY}
    found = []
    for source in package_sources():
        for node in source.tree.body:
            names = ([a.name for a in node.names] if isinstance(node, ast.Import)
                     else [str(node.module)] if isinstance(node, ast.ImportFrom) else [])
            tops = {n.partition(".")[0] for n in names} - set(sys.stdlib_module_names)
            known = {*THIRD_PARTY, "unladen", *more.get(source.part, ())}
            found += [f"{source.path}:{node.lineno}: {name}" for name in tops - known]
    assert not found, "\n".join(found)


def test_only_the_worker_sees_models() -> None:
    """The process that speaks HTTP has no weights; dialects don't know one another."""
    for source in package_sources():
        if source.part != "server":
            continue
        own = source.module.split(".")[2:4]
        for line, target in imports(source):
            parts = target.split(".")
            if parts[1:2] in (["api"], ["engine"], ["tokenizer"]):
                assert own[0] == "worker", f"{source.path}:{line}: {target}"
            if parts[:3] == ["unladen", "server", "dialects"] and len(parts) > 3:
                assert own == ["dialects", parts[3]], f"{source.path}:{line}: {target}"


def test_the_server_loads_no_numpy() -> None:
    code = ("import sys, unladen.server.supervisor; from unladen.server.app import dialects; "
            "dialects(); print('numpy' in sys.modules)")
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            check=True).stdout.split()
    assert loaded == ["False"]


def test_importing_the_package_costs_nothing() -> None:
    code = "import sys, unladen; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                            check=True).stdout.split()
    assert not {"numpy", "typer", "huggingface_hub"} & set(loaded)
