"""Plans a model on paper: where it would run and how many bytes it would take."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Unpack

from unladen.api.model import Model
from unladen.api.wishes import given_of, options_of, plan_wishes, wanted_of, with_kv_type
from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Text, flag
from unladen.parameters.model import NO_FILE
from unladen.types import MAIN

if TYPE_CHECKING:
    from unladen.assembly.ladder import Wishes
    from unladen.gguf import GGUFFile
    from unladen.models import Architecture
    from unladen.parameters.model import ModelNames
    from unladen.schedule.show.report import PlanReport


_PRETEND = Text("devices like \"2x24GB\"", filled=True)


class OnPaper(Model):
    """A model that exists as a plan only."""

    report: PlanReport
    _reads_weights = False

    def _open(self, wishes: Wishes, on_oom: Sequence[str]) -> None:
        from unladen.models import load_architecture
        self.architecture = load_architecture(self._file)
        self.report = _report(self._file, self.architecture, wishes, on_oom, {})

    def _outputs(self) -> Collection[str]:
        return self.report.blueprint.main.graph.outputs.keys()


class Paper:
    """A model's header, read once, for any number of plans. Close it at the end.

    Raises :class:`ModelNotFound`, :class:`GGUFError` and :class:`UnsupportedModel`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from unladen.gguf import open_gguf
        from unladen.models import load_architecture
        self._file = open_gguf(path)
        try:
            self._architecture = load_architecture(self._file)
        except BaseException:
            self._file.close()
            raise

    def plan(self, parameters: Mapping[str, Any], taken: Mapping[str, int] = MappingProxyType({}),
             devices: Sequence[str] = ()) -> PlanReport:
        """What :func:`plan` says, and what became of each parameter.

        * ``parameters``: those of :class:`Model` by name.
        * ``taken``: bytes by device that count as free, because the model is loaded and gives them
          back.
        * ``devices``: names of devices that a plan could use.
        """
        from unladen.api.resolved import resolved
        from unladen.assembly.setup import device_names
        wanted = wanted_of(given_of(self._file.path, parameters)[1])
        named: Any = wanted["devices"]
        names = device_names(named)
        wishes = plan_wishes(names, wanted, options_of(wanted, None))
        report = _report(self._file, self._architecture, wishes, wanted["on_oom"], taken)
        trained = self._architecture.context_length
        return replace(report, taken={}, resolved=resolved(
            wanted, list(with_kv_type(parameters)), report, trained,
            [*dict.fromkeys([*devices, *(each.name for each in report.blueprint.devices)])]))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _report(file: GGUFFile, architecture: Architecture, wishes: Wishes, on_oom: Sequence[str],
            taken: Mapping[str, int]) -> PlanReport:
    from unladen.assembly.planner import Planner
    from unladen.assembly.sources import Sources
    from unladen.schedule.show.report import PlanReport
    on_paper = replace(wishes, options=replace(wishes.options, probe=False))
    sources = Sources(file)
    blueprint, context = Planner(sources, {MAIN: architecture}, on_paper, on_oom).blueprint()
    return PlanReport.of(
        blueprint, Path(file.path).name, context, taken,
        files={key: Path(path).name for key, path in sources.paths.items()})


def plan(path: str | os.PathLike[str] = NO_FILE, *, pretend: str | None = None,
         **parameters: Unpack[ModelNames]) -> PlanReport:
    """What :class:`Model` would do with ``path`` and ``parameters``, before anything is allocated.

    ``pretend``: devices that aren't there, beside the CPU, as
    :func:`~unladen.schedule.show.pretend.pretended` takes them. Raises the errors of :class:`Model`
    except :class:`OutOfMemory`: the report says by how much a device is too small.
    """
    if pretend is not None:
        from unladen.schedule.show.pretend import pretended
        if parameters.get("devices") is not None:
            raise InvalidArgument("both devices and pretend are given", hint="give one of them")
        parameters["devices"] = [*pretended(_PRETEND.of("pretend", pretend)), "cpu"]
    if flag("vocab_only", parameters.get("vocab_only", False)):
        raise InvalidArgument("vocab_only leaves nothing to plan", hint="leave out vocab_only")
    model = OnPaper(path, **parameters)
    model.close()
    from unladen.api.resolved import resolved
    wanted = wanted_of(given_of(path, parameters)[1], model._preset)
    return replace(model.report, resolved=resolved(
        wanted, list(parameters), model.report, model.architecture.context_length,
        [each.name for each in model.report.blueprint.devices]))
