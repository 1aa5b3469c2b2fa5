"""Looks at models' files for the server: what they are, and what memory they would take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from unladen.api.begin import on_paper, planned
from unladen.errors import ModelNotFound
from unladen.server.faults import Fault
from unladen.server.worker.describe import describe_file
from unladen.server.worker.wrong import fault_of

if TYPE_CHECKING:
    from unladen.server.worker.link import Link


def inspect(link: Link, wanted: Sequence[tuple[str, Mapping[str, Any]]], memory_share: float
            ) -> None:
    """Send what the cards of the models ``wanted`` show, references with the options of their
    loads, and whether each ``fits``: each device then has as much memory left as models may not
    have by ``memory_share``. Nothing is downloaded."""
    link.listen(lambda message: None)  # so that this process ends with its server
    for i, (ref, options) in enumerate(wanted):
        link.send([[*_found(ref, options, memory_share), i]])


def _found(ref: str, options: Mapping[str, Any], memory_share: float) -> tuple[str, dict[str, Any]]:
    try:
        model = on_paper(ref, options)
        report, facts = model.report, describe_file(model)
        left = report.left
        facts |= {
            "context_size": report.context_size, "fits": report.fits() and all(
                left[each.device.name] - each.mapped_bytes
                >= (1 - memory_share) * each.device.memory_bytes for each in report.devices),
            **planned(report.blueprint.main, report.devices)}
    except ModelNotFound as error:
        return "absent", Fault("unknown_model", error.message, hint=error.hint).pack()
    except BaseException as error:  # noqa: BLE001  # the server tells its clients why
        return "unreadable", fault_of(error).pack()
    return "found", facts
