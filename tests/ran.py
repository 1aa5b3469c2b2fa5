"""Records which ops ran on which backends, and with weights in which formats, within the bound of
their reference: ``pytest --ran FILE`` writes them to FILE, which docs are generated from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cases import running
from cases.base import Case

FLOATS = "F32"
"""What is recorded for an op without matrices and cache."""
Found = set[tuple[str, str, str, str]]
"""Backend, description of its device, op, format."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ran", metavar="FILE", type=Path,
                     help="write which op ran with which formats on which backend to FILE")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--ran"):
        config.pluginmanager.register(Recorder(config))


@dataclass
class Recorder:
    """Notes each case whose outputs were within their bound."""

    config: pytest.Config
    found: Found = field(default_factory=set)
    last: dict[int, running.Bench] = field(default_factory=dict)
    patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    def pytest_sessionstart(self) -> None:
        self.patch.setattr(running.Bench, "run", self._running(running.Bench.run))
        self.patch.setattr(running, "check", self._checking(running.check))

    def _running(self, run: Callable[[running.Bench], Any]) -> Callable[[running.Bench], Any]:
        def recorded(bench: running.Bench) -> Any:
            outputs = run(bench)
            self.last[id(bench.case)] = bench
            return outputs
        return recorded

    def _checking(self, check: Callable[..., None]) -> Callable[..., None]:
        def recorded(case: Case, *args: Any, **options: Any) -> None:
            check(case, *args, **options)
            bench = self.last.pop(id(case), None)
            if bench is not None and bench.case is case:
                self.found |= entries(bench)
        return recorded

    def pytest_sessionfinish(self) -> None:
        self.patch.undo()
        of_worker = getattr(self.config, "workeroutput", None)
        if of_worker is not None:
            of_worker["ran"] = sorted(self.found)
        else:
            path: Path = self.config.getoption("--ran")
            path.write_text(table(self.found), encoding="utf-8")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.found |= {tuple(each) for each in node.workeroutput.get("ran", ())}


def entries(bench: running.Bench) -> Found:
    """What the run shows: an entry for each format of the node's matrices, as the device has
    them, and for each type of its cache."""
    case, node = bench.case, bench.case.node
    formats = {bench.placed[w.name].quant for w in node.weights.values() if len(w.shape) > 1}
    if case.kv is not None:
        formats |= {case.layout.k_type, case.layout.v_type}
    return {(bench.backend.name, bench.device.description, node.op, quant)
            for quant in formats or {FLOATS}}


def table(found: Found) -> str:
    """JSON: for each backend its device and, for each op, the formats."""
    made: dict[str, dict[str, Any]] = {}
    for backend, device, op, quant in sorted(found):
        of_backend = made.setdefault(backend, {"devices": [], "ops": {}})
        if device not in of_backend["devices"]:
            of_backend["devices"].append(device)
        formats = of_backend["ops"].setdefault(op, [])
        if quant not in formats:
            formats.append(quant)
    for of_backend in made.values():
        of_backend["ops"] = {op: " ".join(sorted(formats))
                             for op, formats in sorted(of_backend["ops"].items())}
    return json.dumps(made, indent=1) + "\n"
