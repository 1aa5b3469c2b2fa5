"""Says what became of the parameters that a plan was made with, and between which values they make
sense."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from unladen.schedule.place import EXPERTS
from unladen.types import BLOCK_TOKENS

if TYPE_CHECKING:
    from unladen.parameters.model import ModelNames
    from unladen.schedule.show.report import PlanReport

LEAST_CONTEXT: Final = 256
"""Tokens of the smallest context that is worth a conversation."""
LEAST_BATCH: Final = 32
"""Tokens of the smallest step: with fewer, reading the weights would dominate each step."""
GREATEST_BATCH: Final = 4096
"""Tokens of the largest step that still makes prompts faster."""
OPEN: Final = ("auto", None)
"""Values that leave the choice to the planner."""


def resolved(wanted: ModelNames, given: Sequence[str], report: PlanReport, trained: int,
             devices: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Each parameter of :meth:`unladen.Model.place` with its ``value`` in the plan, its ``source``
    ("set" or "auto"), the ``least`` and ``greatest`` sensible numbers, and its ``choices``.

    * ``wanted``: every parameter; ``given``: the names of those that weren't left open.
    * ``report``: on the plan.
    * ``trained``: tokens that the model was trained for.
    * ``devices``: names that a plan could use.
    """
    main = report.blueprint.main
    n_layers, (embed, head) = len(main.layers), main.ends()
    used = [device.name for device in main.devices]
    n_off_host = n_layers if any(not device.is_host for device in main.devices) else 0
    has_experts = any(EXPERTS.search(need.weight.name) for need in main.needs)
    numbers: Mapping[str, tuple[Any, int, int]] = {
        "n_gpu_layers": (main.n_offloaded(), 0, n_off_host),
        "n_cpu_moe": (main.choice.n_cpu_moe, 0, n_layers if has_experts else 0),
        "main_gpu": (wanted["main_gpu"], 0, max(0, len(used) - 1)),
        "context_size": (report.context_size, min(LEAST_CONTEXT, trained), trained),
        "cache_tokens": (report.cache_tokens, report.context_size,
                         max(report.cache_tokens, wanted["max_seqs"] * -(
                             -report.context_size // BLOCK_TOKENS) * BLOCK_TOKENS)),
        "batch_size": (main.limits.n_tokens, min(LEAST_BATCH, report.context_size),
                       min(GREATEST_BATCH, report.context_size))}
    texts: Mapping[str, tuple[Any, Sequence[str] | None]] = {
        "devices": (used, devices), "split_mode": (wanted["split_mode"],
                                                   ("layer", "none", "row", "tensor")),
        "offload_order": (wanted["offload_order"], ("first", "last", "cost")),
        "tensor_split": (wanted["tensor_split"], None), "cpu_moe": (wanted["cpu_moe"], None),
        "override_tensor": (wanted["override_tensor"], None),
        "kv_offload": (wanted["kv_offload"], None), "embed_device": (embed, used),
        "head_device": (head, used), "expert_split": (wanted["expert_split"], None),
        "expert_cache": (wanted["expert_cache"], None),
        "stream_weights": (wanted["stream_weights"], None),
        "kv_type": (_kv_type(wanted["kv_type"]), ("f16", "f32", "q8_0"))}
    every: Any = wanted
    found = {name: _option(value, every[name], name in given, least, greatest, None)
             for name, (value, least, greatest) in numbers.items()}
    return found | {name: _option(value, every[name], name in given, None, None, choices)
                    for name, (value, choices) in texts.items()}


def _option(value: Any, wanted: Any, is_given: bool, least: int | None, greatest: int | None,
            choices: Sequence[str] | None) -> dict[str, Any]:
    return {"value": value, "source": "set" if is_given and wanted not in OPEN else "auto",
            "least": least, "greatest": greatest,
            "choices": None if choices is None else list(choices)}


def _kv_type(wanted: str | tuple[str, str]) -> str:
    return wanted if isinstance(wanted, str) else ",".join(dict.fromkeys(wanted))
