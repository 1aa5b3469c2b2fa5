"""Finds which of a file's blocks are layers to compute, by their tensors, and checks the counts in
the metadata against them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from unladen.errors import GGUFError, UnsupportedModel
from unladen.gguf import HParams

MAX_LAYERS = 512
"""More layers are refused, before memory is taken for each of them."""

COUNT, DRAFTING = "block_count", "nextn_predict_layers"

_BLOCK: Final = re.compile(r"blk\.(\d{1,9})\.(.+)")
_DRAFTING_PART: Final = "nextn."
"""Names of tensors that only drafting layers have begin with this, after the block."""

_SPARE: Final = re.compile(
    r"rope_(freqs|factors_(long|short))\.weight"  # the unused one of two factors
    r"|blk\.\d+\.attn_rot_embd.*"  # frequencies that old converters stored
    r"|cls\..*"  # a classifier on top of the model
    r"|blk\.\d+\.indexer[._].*"  # selects keys, in contexts so short that all are selected
    r"|blk\.\d+\.(vis_.*|.*_vl\.(bias|weight))"  # used for images only
    r"|.*\.input_scale")  # scales of activations in 4 bits
"""Tensors that aren't used for decoding text, in any architecture."""


def count_layers(hparams: HParams, tensors: Mapping[str, object], n_stored: int | None = None, *,
                 may_be_empty: bool = False) -> int:
    """How many of the blocks are layers to compute. The blocks after these are drafting layers.

    A drafting layer has ``nextn`` tensors: it guesses tokens after the next one (multi-token
    prediction, Gloeckle et al. 2024). Layers that ``nextn_predict_layers`` counts may be missing in
    the file. No other layer is ever left out, whatever the counts say. ``n_stored``: blocks in the
    file, where that isn't ``block_count``; ``may_be_empty``: a layer may have no tensors. Raises
    :class:`GGUFError` where counts and tensors disagree, :class:`UnsupportedModel` where all layers
    are drafting layers.
    """
    n_blocks = hparams.int(COUNT, minimum=1, maximum=MAX_LAYERS)
    n_counted = hparams.int(DRAFTING, 0)
    if n_stored is not None:
        _check_behind(hparams, tensors, n_stored, n_blocks)
        return n_blocks
    parts = _parts(tensors)
    if not tensors:
        raise GGUFError("holds no tensors, so there is nothing to run", path=hparams.path,
                        hint="it may be a vocabulary alone: tokenize with it (vocab_only=True), or "
                             "fetch the whole model")
    n_layers = n_blocks
    while n_layers and (_drafts(parts.get(n_layers - 1)) or (
            n_layers - 1 not in parts and n_blocks - n_layers < n_counted)):
        n_layers -= 1
    if n_layers == 0:
        raise UnsupportedModel(f"{hparams.path} holds only drafting layers (nextn)",
                               arch=hparams.arch, hint="load the file of the whole model")
    _check_behind(hparams, tensors, n_blocks, n_blocks)
    for layer in range(n_layers):
        if layer not in parts and not may_be_empty:
            raise GGUFError(f"{hparams.arch}.{COUNT} is {n_blocks}, but there is no tensor "
                            f"blk.{layer}.*", path=hparams.path,
                            hint="the file is incomplete: convert or fetch it again")
        if _drafts(parts.get(layer)):
            raise GGUFError(f"by blk.{layer}.{_DRAFTING_PART}* layer {layer} is a drafting layer, "
                            f"but layer {n_layers - 1} of {hparams.arch}.{COUNT}="
                            f"{n_blocks} does not", path=hparams.path,
                            hint="only the last layers can be drafting layers: convert the model "
                                 "again")
    return n_layers


def _check_behind(hparams: HParams, tensors: Mapping[str, object], n_stored: int, n_blocks: int
                  ) -> None:
    """Raise :class:`GGUFError` where the file has a layer after the counted ones that isn't a
    drafting layer."""
    for layer, parts in sorted(_parts(tensors).items()):
        if layer >= n_stored and not _drafts(parts):
            raise GGUFError(f"{hparams.arch}.{COUNT} is {n_blocks}, but there is a tensor "
                            f"blk.{layer}.{min(parts)}", path=hparams.path,
                            hint="a layer would be left out: convert or fetch the file again")


def _parts(tensors: Mapping[str, object]) -> dict[int, set[str]]:
    """For each block the names of its tensors, without the block's prefix."""
    found: dict[int, set[str]] = {}
    for name in tensors:
        if match := _BLOCK.fullmatch(name):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def _drafts(parts: set[str] | None) -> bool:
    return parts is not None and any(p.startswith(_DRAFTING_PART) for p in parts)


def is_spare(name: str, tensors: Mapping[str, object], n_layers: int,
             spare: frozenset[str], unbiased: frozenset[str]) -> bool:
    """Whether it is known why a graph of ``n_layers`` layers doesn't use the tensor ``name``.

    ``spare``: parts, or tensors of parts, that the architecture doesn't use. ``unbiased``: parts
    whose biases it doesn't use. A bias without its matrix isn't used either.
    """
    match = _BLOCK.fullmatch(name)
    if _SPARE.fullmatch(name) or (match and int(match[1]) >= n_layers):
        return True
    part, _, kind = (match[2] if match else name).rpartition(".")
    if part in spare or f"{part}.{kind}" in spare:
        return True
    return kind == "bias" and (
        part in unbiased or name.removesuffix("bias") + "weight" not in tensors)
