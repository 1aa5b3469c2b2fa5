"""Which of a file's blocks are layers to compute, by its tensors; what metadata count is checked
against them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from unladen.errors import GGUFError, UnsupportedModel
from unladen.gguf import HParams

MAX_LAYERS = 512
"""More are refused, before anything is made for each of them."""

COUNT, DRAFTING = "block_count", "nextn_predict_layers"

_BLOCK: Final = re.compile(r"blk\.(\d{1,9})\.(.+)")
_DRAFTING_PART: Final = "nextn."

_SPARE: Final = re.compile(
    r"rope_(freqs|factors_(long|short))\.weight"  # one of two, or of a model that has its own
    r"|blk\.\d+\.attn_rot_embd.*"  # frequencies that old converters stored
    r"|cls\..*"  # a classifier upon the model
    r"|blk\.\d+\.indexer[._].*"  # chooses keys, where so many are all chosen
    r"|blk\.\d+\.(vis_.*|.*_vl\.(bias|weight))"  # for images alone
    r"|.*\.input_scale")  # of activations in 4 bits
"""Tensors that decoding a text has no use for, whatever the architecture."""


def count_layers(hparams: HParams, tensors: Mapping[str, object], n_stored: int | None = None, *,
                 may_be_empty: bool = False) -> int:
    """How many of the blocks are layers to compute; those behind them only draft.

    A layer drafts if it has ``nextn`` tensors: it guesses tokens after the next one (multi-token
    prediction, Gloeckle et al. 2024). A layer that ``nextn_predict_layers`` counts may also have
    been cut away. Whatever the counts say, no other layer is left out. ``n_stored``: blocks in the
    file, where that isn't ``block_count``; ``may_be_empty``: a layer may have no tensors. Raises
    :class:`GGUFError` where counts and tensors disagree, :class:`UnsupportedModel` where all layers
    draft.
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
        raise UnsupportedModel(f"{hparams.path} holds nothing but layers that draft",
                               arch=hparams.arch, hint="load the file of the whole model")
    _check_behind(hparams, tensors, n_blocks, n_blocks)
    for layer in range(n_layers):
        if layer not in parts and not may_be_empty:
            raise GGUFError(f"{hparams.arch}.{COUNT} is {n_blocks}, but there is no tensor "
                            f"blk.{layer}.*", path=hparams.path,
                            hint="the file is incomplete: convert or fetch it again")
        if _drafts(parts.get(layer)):
            raise GGUFError(f"blk.{layer}.{_DRAFTING_PART}* makes a layer that drafts of number "
                            f"{layer}, but number {n_layers - 1} of {hparams.arch}.{COUNT}="
                            f"{n_blocks} does not", path=hparams.path,
                            hint="only the last layers can draft: convert the model again")
    return n_layers


def _check_behind(hparams: HParams, tensors: Mapping[str, object], n_stored: int, n_blocks: int
                  ) -> None:
    """No layer lies behind those that are counted, but for such as draft."""
    for layer, parts in sorted(_parts(tensors).items()):
        if layer >= n_stored and not _drafts(parts):
            raise GGUFError(f"{hparams.arch}.{COUNT} is {n_blocks}, but there is a tensor "
                            f"blk.{layer}.{min(parts)}", path=hparams.path,
                            hint="a layer would be left out: convert or fetch the file again")


def _parts(tensors: Mapping[str, object]) -> dict[int, set[str]]:
    """Names of tensors without their block's, by block."""
    found: dict[int, set[str]] = {}
    for name in tensors:
        if match := _BLOCK.fullmatch(name):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def _drafts(parts: set[str] | None) -> bool:
    return parts is not None and any(p.startswith(_DRAFTING_PART) for p in parts)


def is_spare(name: str, tensors: Mapping[str, object], n_layers: int,
             spare: frozenset[str], unbiased: frozenset[str]) -> bool:
    """Whether the tensor ``name``, which a graph of ``n_layers`` layers doesn't use, is known to be
    no part of it. ``spare``: parts, or tensors of them, that an architecture has no use for;
    ``unbiased``: parts whose biases it has none for. A bias without a matrix is added to nothing.
    """
    match = _BLOCK.fullmatch(name)
    if _SPARE.fullmatch(name) or (match and int(match[1]) >= n_layers):
        return True
    part, _, kind = (match[2] if match else name).rpartition(".")
    if part in spare or f"{part}.{kind}" in spare:
        return True
    return kind == "bias" and (
        part in unbiased or name.removesuffix("bias") + "weight" not in tensors)
