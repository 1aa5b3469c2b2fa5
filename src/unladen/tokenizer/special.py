"""Finds the special tokens: ids that keys name, ends of a generation, white space to drop."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from unladen.tokenizer.fields import MAX_SEARCHED_BYTES, Fields, TokenType
from unladen.tokenizer.native import Vocab

TOKEN_ID_KEYS: Final = {
    "bos": "bos_token_id", "eos": "eos_token_id", "eot": "eot_token_id", "eom": "eom_token_id",
    "unknown": "unknown_token_id", "sep": "seperator_token_id",  # spelled so in GGUF
    "pad": "padding_token_id", "cls": "cls_token_id", "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id", "fim_suf": "fim_suf_token_id", "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id", "fim_rep": "fim_rep_token_id", "fim_sep": "fim_sep_token_id",
}
"""The keys of special ids, by the short names that this package uses."""

OLD_KEYS: Final = {"fim_pre": "prefix_token_id", "fim_suf": "suffix_token_id",
                   "fim_mid": "middle_token_id"}
"""Keys of the same ids in older files."""

_BY_TEXT: Final = {
    "eot": ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>",
            "<|end_of_text|>", "<EOT>", "_<EOT>", "[EOT]", "<\uff5cend▁of▁sentence\uff5c>",
            "<end_of_utterance>"),
    "eom": ("<|eom_id|>",),
    "fim_pre": ("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim▁begin\uff5c>",
                "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>"),
    "fim_suf": ("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim▁hole\uff5c>", "<SUF>",
                "▁<SUF>", "<|code_suffix|>", "<|suffix|>"),
    "fim_mid": ("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim▁end\uff5c>", "<MID>",
                "▁<MID>", "<|code_middle|>", "<|middle|>"),
    "fim_pad": ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    "fim_rep": ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    "fim_sep": ("<|file_sep|>",),
}
"""Texts that mean a special id where no key names it: the first one in the vocabulary counts."""
_ENDS: Final = (
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]",
    "[EOS]", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    "<\uff5cend▁of▁sentence\uff5c>", "[e~[",
)
"""Tokens with these texts end a turn, in every vocabulary."""
_CONTROL_ENDS: Final = ("</s>",)
"""Tokens with these texts end a turn only if they are control tokens: elsewhere they are HTML."""
_END_IDS: Final = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
_SHOWN: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
"""Tokens that separate the sections of an answer in the harmony format: they are shown, since the
reader of the answer needs them."""

_SPECIAL_LOOKS: Final = re.compile(rb"<.+>|\[.+\]|>>.+<<", re.DOTALL)
"""What special tokens look like: <s>, [CLS], Falcon's >>TITLE<<. Decides in files without types."""

_SPECIAL_TYPES: Final = (TokenType.UNKNOWN, TokenType.CONTROL, TokenType.USER_DEFINED)
_STRIP_LEFT, _STRIP_RIGHT = 1, 2


def token_ids(fields: Fields, vocab: Vocab, types: npt.NDArray[np.uint8] | None,
              defaults: Mapping[str, int]) -> dict[str, int]:
    """Special ids by short name: those that keys name, and those in ``defaults``.

    A default counts only if the token is special by its type or, in a file without types, by its
    text: id 11 ends a text in Falcon's vocabulary and is a comma in GPT-2's.
    """
    ids = {}
    n_vocab = len(vocab)
    for name, key in TOKEN_ID_KEYS.items():
        token_id = fields.token_id(key, n_vocab)
        if token_id is None and name in OLD_KEYS:
            token_id = fields.token_id(OLD_KEYS[name], n_vocab)
        if token_id is None and (fallback := defaults.get(name, n_vocab)) < n_vocab and (
                _SPECIAL_LOOKS.fullmatch(vocab.text(fallback)) if types is None
                else types[fallback] in (TokenType.CONTROL, TokenType.UNKNOWN)):
            token_id = fallback
        if token_id is not None:
            ids[name] = token_id
    return ids


class ByText:
    """Finds special tokens by their text, and marks them as control tokens in ``types``.

    Converters often mark such tokens as normal ones, which would be printed and couldn't be used
    in a prompt. Each change is logged with ``path``. The lists of texts are those in llama.cpp's
    src/llama-vocab.cpp.
    """

    def __init__(self, vocab: Vocab, types: npt.NDArray[np.uint8], path: str) -> None:
        self._vocab, self._types, self._path = vocab, types, path

    def add_ids(self, ids: dict[str, int]) -> None:
        """Add the ids that :func:`token_ids` didn't find to ``ids``."""
        for name, texts in _BY_TEXT.items():
            found = self._find(texts) if name not in ids else {}
            if found:
                text, ids[name] = next(iter(found.items()))
                self._make_control(text, ids[name])

    def eog_ids(self, ids: Mapping[str, int]) -> frozenset[int]:
        """The ids that end a generation; ``ids`` as :meth:`add_ids` left them."""
        by_text = self._find(_ENDS + _CONTROL_ENDS)
        found = {ids[name] for name in _END_IDS if name in ids}
        calls = by_text.keys() & {"<|call|>", "<|calls|>"}
        if calls and by_text.keys() & {"<|return|>", "<|flush|>"} and "<|end|>" in by_text:
            end = by_text.pop("<|end|>")  # here it separates messages within an answer
            self._types[end] = TokenType.USER_DEFINED
            found.discard(end)
        for text in _CONTROL_ENDS:
            if text in by_text and self._types[by_text[text]] != TokenType.CONTROL:
                del by_text[text]
        for text, end in by_text.items():
            self._make_control(text, end)
            found.add(end)
        if calls:
            for token in self._find(_SHOWN).values():
                self._types[token] = TokenType.USER_DEFINED
        return frozenset(found)

    def _find(self, texts: tuple[str, ...]) -> dict[str, int]:
        found = {text: self._vocab.find(text.encode()) for text in texts}
        return {text: token for text, token in found.items() if token >= 0}

    def _make_control(self, text: str, token: int) -> None:
        if self._types[token] != TokenType.CONTROL:
            logging.getLogger("unladen").warning(
                "%s: token %d %s isn't marked as a control token, but is treated as one",
                self._path, token, text)
            self._types[token] = TokenType.CONTROL


def suppressed(fields: Fields, n_vocab: int) -> frozenset[int]:
    """The ids in ``suppress_tokens``, which are never generated. Ids outside the vocabulary are
    left out with a warning."""
    key = "suppress_tokens"
    ids = fields.numbers(key, "iu", None)
    if ids is None or not ids.size:
        return frozenset()
    known = (ids >= 0) & (ids < n_vocab)
    if not known.all():
        logging.getLogger("unladen").warning(
            "%s: %s names token %d, but ids are below %d: left out", fields.path, key,
            ids[~known][0], n_vocab)
    return frozenset(ids[known].tolist())


def untold_types(n_vocab: int, ids: Mapping[str, int]) -> npt.NDArray[np.uint8]:
    """Types for a file that has none: special ids are control tokens, other ids undefined."""
    types = np.zeros(n_vocab, np.uint8)
    types[list(ids.values())] = TokenType.CONTROL
    if "unknown" in ids:
        types[ids["unknown"]] = TokenType.UNKNOWN
    return types


def check_lengths(fields: Fields, types: npt.NDArray[np.uint8]) -> None:
    """Raise GGUFError for a long special token: special tokens are searched for at each position of
    a text."""
    tokens = fields.strings("tokens")
    if tokens is None:
        return
    long = np.isin(types, _SPECIAL_TYPES) & (tokens.lengths > MAX_SEARCHED_BYTES)
    if long.any():
        bad = int(np.argmax(long))
        raise fields.error("tokens", f"has a special token {bad} of {tokens.lengths[bad]} bytes; "
                                     f"at most {MAX_SEARCHED_BYTES} are allowed")


def strips(fields: Fields, vocab: Vocab, types: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """The sides on which special tokens drop white space, uint8 [n_vocab]: bit 0 left, bit 1 right.

    GGUF has no key for this. As in llama.cpp, it follows from the names of model and pre-tokenizer.
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
        result[np.isin(types, _SPECIAL_TYPES)] = _STRIP_RIGHT
        mark(("</s>",), _STRIP_RIGHT)
        mark(("<unk>", "<s>", "<|endoftext|>"), 0)
    elif "modern-bert" in name:
        mark(("[MASK]",), _STRIP_LEFT)
    return result
