"""Which tokens are special: ids named by keys, ends of generation, swallowed white space."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from unladen.tokenizer.fields import Fields, TokenType
from unladen.tokenizer.native import Vocab

TOKEN_ID_KEYS: Final = {
    "bos": "bos_token_id", "eos": "eos_token_id", "eot": "eot_token_id", "eom": "eom_token_id",
    "unknown": "unknown_token_id", "sep": "seperator_token_id",  # spelled so in GGUF
    "pad": "padding_token_id", "cls": "cls_token_id", "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id", "fim_suf": "fim_suf_token_id", "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id", "fim_rep": "fim_rep_token_id", "fim_sep": "fim_sep_token_id",
}
"""Keys of special ids by the short name used here."""

_ENDS: Final = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]",
    "[EOS]", "<end_of_utterance>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
)
"""Texts that mean the end of a turn wherever they occur."""
_CONTROL_ENDS: Final = ("</s>",)
"""Texts that mean it only as control tokens: elsewhere they are HTML."""
_END_IDS: Final = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")

_SPECIAL_LOOKS: Final = re.compile(rb"<.+>|\[.+\]|>>.+<<", re.DOTALL)
"""<s>, [CLS], Falcon's >>TITLE<<."""

_STRIP_LEFT, _STRIP_RIGHT = 1, 2


def token_ids(fields: Fields, vocab: Vocab, types: npt.NDArray[np.uint8] | None,
              defaults: Mapping[str, int]) -> dict[str, int]:
    """Special ids by short name.

    A default holds only where the token is a special one, by its type or, in a file without types,
    by its looks: id 11 ends Falcon's text, and is a comma in GPT-2's vocabulary.
    """
    ids = {}
    n_vocab = len(vocab)
    for name, key in TOKEN_ID_KEYS.items():
        token_id = fields.token_id(key, n_vocab)
        if token_id is None and (fallback := defaults.get(name, n_vocab)) < n_vocab and (
                _SPECIAL_LOOKS.fullmatch(vocab.text(fallback)) if types is None
                else types[fallback] in (TokenType.CONTROL, TokenType.UNKNOWN)):
            token_id = fallback
        if token_id is not None:
            ids[name] = token_id
    return ids


def untold_types(n_vocab: int, ids: Mapping[str, int]) -> npt.NDArray[np.uint8]:
    """Types for a file that has none: special ids are control tokens, the rest undefined."""
    types = np.zeros(n_vocab, np.uint8)
    types[list(ids.values())] = TokenType.CONTROL
    if "unknown" in ids:
        types[ids["unknown"]] = TokenType.UNKNOWN
    return types


def eog_ids(vocab: Vocab, types: npt.NDArray[np.uint8], ids: Mapping[str, int], path: str
            ) -> frozenset[int]:
    """The ids that end a generation; makes control tokens of those in ``types``.

    Converters often leave such tokens normal ones, which then would be printed and couldn't be
    written in a prompt; the change is logged.
    """
    found = {ids[name] for name in _END_IDS if name in ids}
    by_text = {text: vocab.find(text.encode()) for text in _ENDS + _CONTROL_ENDS}
    if by_text["<|return|>"] >= 0 and by_text["<|call|>"] >= 0:
        del by_text["<|end|>"]  # it separates messages within an answer there (harmony)
    for text, end in by_text.items():
        if end < 0 or (text in _CONTROL_ENDS and types[end] != TokenType.CONTROL):
            continue
        if types[end] != TokenType.CONTROL:
            logging.getLogger("unladen").warning(
                "%s: token %d %s isn't marked as a control token, taking it for one",
                path, end, text)
            types[end] = TokenType.CONTROL
        found.add(end)
    return frozenset(found)


def strips(fields: Fields, vocab: Vocab, types: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """White space that special tokens swallow, uint8 [n_vocab]: bit 0 left, bit 1 right.

    GGUF has no key for it; as in llama.cpp, the names of model and pre-tokenizer tell.
    """
    result = np.zeros(len(vocab), np.uint8)

    def mark(texts: tuple[str, ...], value: int) -> None:
        for text in texts:
            if (token_id := vocab.find(text.encode())) >= 0:
                result[token_id] = value

    name, pre = fields.outside("general.name"), fields.string("pre") or ""
    arch = fields.outside("general.architecture")
    if (any(part in pre for part in ("jina-v2-de", "jina-v2-es", "jina-v2-code"))
            or arch in ("nomic-bert-moe", "jina-bert-v3")):
        mark(("<mask>",), _STRIP_LEFT)
    elif "phi-3" in name or "phi3" in name:
        special = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED)
        result[np.isin(types, special)] = _STRIP_RIGHT
        mark(("</s>",), _STRIP_RIGHT)
        mark(("<unk>", "<s>", "<|endoftext|>"), 0)
    elif "modern-bert" in name:
        mark(("[MASK]",), _STRIP_LEFT)
    return result
