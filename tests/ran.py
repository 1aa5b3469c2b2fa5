"""Records which ops ran on which backends, and with weights in which formats, within the bound of
their reference: ``pytest --ran FILE`` writes them to FILE, which docs are generated from.

What FILE says about other devices and ops stays, so that machines can add what others lack. A
session with a failure writes nothing.
"""

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
DRIVER = "ran"
"""How ops ran if a test's module doesn't say ``RAN_BY``: by the driver of a device."""
TYPES = "types"
"""How ops ran whose texts a compiler checked, and nothing more. Such a test records the property
of this name: the backend, the compiler and the op."""
Found = set[tuple[str, str, str, str, str]]
"""Backend, description of its device, how it ran, op, format."""
Table = dict[str, dict[str, dict[str, Any]]]
"""By backend and device: ``by``, how its ops ran, and ``ops``: for each op its formats."""


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
    by: str = DRIVER
    patch: pytest.MonkeyPatch = field(default_factory=pytest.MonkeyPatch)

    def pytest_sessionstart(self) -> None:
        self.patch.setattr(running.Bench, "run", self._running(running.Bench.run))
        self.patch.setattr(running, "check", self._checking(running.check))

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.by = getattr(getattr(item, "module", None), "RAN_BY", DRIVER)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            for backend, compiler, op in (of for name, of in report.user_properties
                                          if name == TYPES):
                self.found.add((backend, compiler, TYPES, op, FLOATS))

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
                self.found |= entries(bench, self.by)
        return recorded

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self.patch.undo()
        of_worker = getattr(self.config, "workeroutput", None)
        if of_worker is not None:
            of_worker["ran"] = sorted(self.found)
        elif exitstatus == pytest.ExitCode.OK:
            path: Path = self.config.getoption("--ran")
            before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            made = json.dumps(table(self.found, before), indent=1, sort_keys=True)
            path.write_text(made + "\n", encoding="utf-8")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.found |= {tuple(each) for each in node.workeroutput.get("ran", ())}


def entries(bench: running.Bench, by: str) -> Found:
    """What the run shows: an entry for each format of the node's matrices, as the device has
    them, and for each type of its cache."""
    case, node = bench.case, bench.case.node
    formats = {bench.placed[w.name].quant for w in node.weights.values() if len(w.shape) > 1}
    if case.kv is not None:
        formats |= {case.layout.k_type, case.layout.v_type}
    return {(bench.backend.name, bench.device.description, by, node.op, quant)
            for quant in formats or {FLOATS}}


def table(found: Found, before: Table) -> Table:
    """``before`` with what was found: a device's op that ran again has its new formats."""
    formats: dict[tuple[str, str, str, str], list[str]] = {}
    for *what, quant in sorted(found):
        formats.setdefault((what[0], what[1], what[2], what[3]), []).append(quant)
    made = {backend: dict(devices) for backend, devices in before.items()}
    for (backend, device, by, op), quants in formats.items():
        ops = made.get(backend, {}).get(device, {}).get("ops", {})
        made.setdefault(backend, {})[device] = {"by": by, "ops": {**ops, op: " ".join(quants)}}
    return made
