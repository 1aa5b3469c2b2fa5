"""Describes a model to the server: what its card shows."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from unladen.api.begin import (
    again,
    chat_abilities,
    files_of,
    fill_marks,
    planned,
    preset_of,
    report,
    writes_text,
)
from unladen.errors import UnladenError
from unladen.hub.resolve import quant_of

if TYPE_CHECKING:
    from unladen.api import Model

LONGEST_LIST = 16
"""Items of lists in the metadata that are shown. Longer ones are vocabularies and the like."""
LONGEST_TEXT = 65536
"""Characters of texts in the metadata that are shown."""
TEMPLATE: Final = "tokenizer.chat_template"
HEADER_BYTES = 2**20
"""Bytes of a file that its digest is made from, beside its size: reading a whole model takes
minutes."""
_HASHED: Final = re.compile(r"(?:sha256-)?([0-9a-f]{64})")
"""The names that stores give to files: the SHA-256 of their contents."""


def describe(model: Model) -> dict[str, Any]:
    """Fields of :class:`~unladen.server.core.Card`, and ``n_seqs``, the sequences of a step.
    ``model`` has its weights in memory."""
    engine = model.engine
    found = describe_file(model)
    found |= {"plan": report(model).facts(), "context_size": model.context_size,
              "n_seqs": engine.plan.blueprint.limits.n_seqs,
              **planned(engine.plan.blueprint, model.memory().devices)}
    return found


def describe_file(model: Model) -> dict[str, Any]:
    """What the file of ``model`` says; its weights need not be in memory."""
    metadata, tensors = model.metadata, model.tensors
    arch = str(metadata.get("general.architecture", ""))
    files = files_of(model)
    ref, watched = again(model)
    preset = preset_of(model)
    template = metadata.get(TEMPLATE)
    if preset is not None and preset.template and not (preset.yields and template):
        template = preset.template
    return {
        "path": str(model.path), "ref": ref, "watched": [*watched], "arch": arch,
        "preset": {} if preset is None else {
            "system": preset.system, "parameters": dict(preset.parameters),
            "messages": [dict(each) for each in preset.messages]},
        "trained_context": _number(metadata.get(f"{arch}.context_length")),
        "n_embd": _number(metadata.get(f"{arch}.embedding_length")),
        "n_vocab": model.tokenizer.n_vocab,
        "n_bytes": sum(os.path.getsize(path) for path in files),
        "n_parameters": sum(each.n_elements for each in tensors.values()),
        "quant": quant_of(Path(model.path).name) or _most_used(tensors),
        "digest": digest(Path(model.path)), "created": int(os.stat(model.path).st_mtime),
        "template": template if isinstance(template, str) else "",
        "metadata": {key: short for key, value in metadata.items()
                     if key != TEMPLATE and (short := _short(value)) is not None},
        "can": _abilities(model, isinstance(template, str))}


def digest(path: Path) -> str:
    """64 hexadecimal digits that tell the file ``path`` from others: the SHA-256 of its contents
    where a store named it so, else that of its size and its first bytes."""
    real = path.resolve()
    if named := _HASHED.fullmatch(real.name):
        return named[1]
    with open(real, "rb") as file:
        return hashlib.sha256(b"%d " % real.stat().st_size + file.read(HEADER_BYTES)).hexdigest()


def _abilities(model: Model, has_template: bool) -> list[str]:
    reads = ["embed"] * model.embeds + ["rank"] * bool(model.ranks_by)
    if not writes_text(model):
        return reads
    can = ["complete", *reads]
    with contextlib.suppress(UnladenError):  # the file has no tokens for that
        fill_marks(model)
        can.append("infill")
    if has_template:
        can.append("chat")
        try:
            can += chat_abilities(model)
        except UnladenError:
            can.remove("chat")  # a template that fails on everything
    return can


def _most_used(tensors: Mapping[str, Any]) -> str:
    counted: Counter[str] = Counter()
    for each in tensors.values():
        counted[each.quant] += each.nbytes
    return counted.most_common(1)[0][0] if counted else ""


def _number(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _short(value: object) -> Any:
    """``value`` as JSON; None where it is too long to be shown."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else None
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, Sequence) and len(value) <= LONGEST_LIST:
        items = [_short(each) for each in value]
        return None if None in items else items
    return None
