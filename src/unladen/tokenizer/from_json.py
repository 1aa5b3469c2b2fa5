"""A tokenizer from a ``tokenizer.json``, for a model whose own tokenizer is missing or wrong.

PyPI's ``tokenizers`` encodes. The native code decodes as usual, with the tokens' texts and types
from the JSON file.
"""

from __future__ import annotations

import bisect
import functools
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unladen.errors import InvalidArgument, ModelNotFound, UnsupportedModel
from unladen.tokenizer.fields import PREFIX, Fields, TokenType
from unladen.tokenizer.tokenizer import Tokenizer

EXTRA = "hf-tokenizer"
"""The extra of this package that installs ``tokenizers``."""


class JsonTokenizer(Tokenizer):
    """The tokenizer of a ``tokenizer.json`` at ``path``, for the model with this ``metadata``.

    Special ids that the JSON file's template doesn't have are taken from ``metadata``. Raises
    :class:`ModelNotFound`; :class:`InvalidArgument` for a file that isn't a tokenizer's or has more
    tokens than the model, and where PyPI's ``tokenizers`` isn't installed;
    :class:`UnsupportedModel` for an unknown form of decoder or template.
    """

    def __init__(self, path: str | os.PathLike[str], metadata: Mapping[str, object]) -> None:
        text = _read(Path(path))
        self._all = _parsed(text, path)
        self._whole_texts = self._all, _text_only(text, path)
        self._later_texts: tuple[Any, Any] | None = None
        source = _Source(self._all, json.loads(text), os.fspath(path))
        super().__init__(Fields({**metadata, **source.metadata()}, os.fspath(path)))
        self._compare(metadata)

    def _bare(self, text: str, special: bool, continues: bool,
              plain: Sequence[tuple[int, int]]) -> list[int]:
        if special and plain:
            return self._around(text, continues, plain)
        used = self._whole_texts
        if continues:
            if self._later_texts is None:
                unspaced = _without_prefix(self._all.to_str())
                self._later_texts = (_parsed(unspaced, self._path),
                                     _text_only(unspaced, self._path))
            used = self._later_texts
        ids: list[int] = used[not special].encode(text, add_special_tokens=False).ids
        return ids

    def _around(self, text: str, continues: bool, plain: Sequence[tuple[int, int]]) -> list[int]:
        """The ids of ``text``, whose ranges ``plain`` hold no control tokens: PyPI's tokenizers
        can't leave some out, so texts between the others are encoded one by one."""
        ids: list[int] = []
        begin, at = 0, 0
        while match := self.control_marks.search(text, at):
            behind = bisect.bisect_right(plain, match.start(), key=lambda part: part[1])
            if behind < len(plain) and plain[behind][0] < match.end():
                at = match.start() + 1
                continue
            token = self._added[self.control_texts[match[0]]]
            between = text[begin:match.start()]
            ids += self._bare(between.rstrip() if token.lstrip else between, False,
                              continues or begin > 0, ())
            ids.append(self.control_texts[match[0]])
            begin = at = match.end()
            if token.rstrip:
                begin += len(text[at:]) - len(text[at:].lstrip())
        return ids + self._bare(text[begin:], False, continues or begin > 0, ())

    @functools.cached_property
    def _added(self) -> Mapping[int, Any]:
        """The file's added tokens, which PyPI's ``tokenizers`` copies at each request."""
        added: Mapping[int, Any] = self._all.get_added_tokens_decoder()
        return added

    def _compare(self, metadata: Mapping[str, object]) -> None:
        own = Fields(metadata, self._path).strings("tokens")
        if own is None:
            return
        n_own = len(own.lengths)
        if self.n_vocab > n_own:
            raise InvalidArgument(f"{self._path} has {self.n_vocab} tokens, the model {n_own}",
                                  hint="take the tokenizer.json of this model")
        starts = own.offsets[:self.n_vocab].tolist()
        ends = (own.offsets + own.lengths)[:self.n_vocab].tolist()
        n_other = sum(self._vocab.text(i) != own.buffer[start:end].tobytes()
                      for i, (start, end) in enumerate(zip(starts, ends, strict=True)))
        if n_other:
            logging.getLogger("unladen").warning(
                "%s: %d of %d tokens differ from those in the model's file", self._path, n_other,
                self.n_vocab)


class _Source:
    """Translates a ``tokenizer.json`` to the metadata of a GGUF file."""

    def __init__(self, tokenizer: Any, data: dict[str, Any], path: str) -> None:
        self._tokenizer, self._data, self._path = tokenizer, data, path

    def metadata(self) -> dict[str, object]:
        """Metadata for the native tokenizer, which decodes."""
        kind, spelled = self._kind()
        vocab: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        if not vocab:
            raise InvalidArgument(f"{self._path} has no tokens")
        n_vocab = max(vocab.values()) + 1
        tokens = [f"[PAD{i}]" for i in range(n_vocab)]
        types = [int(TokenType.UNUSED)] * n_vocab
        marks = {f"<0x{byte:02X}>" for byte in range(256)} if kind == "llama" else set()
        for text, i in vocab.items():
            tokens[i] = spelled(text)
            types[i] = TokenType.BYTE if text in marks else TokenType.NORMAL
        for i, added in self._tokenizer.get_added_tokens_decoder().items():
            tokens[i] = added.content
            types[i] = TokenType.CONTROL if added.special else TokenType.USER_DEFINED
        found: dict[str, object] = {
            "model": kind, "pre": "gpt-2", "tokens": tokens, "token_type": types,
            "scores": [0.0] * n_vocab, "merges": [], **self._template(kind)}
        return {PREFIX + key: value for key, value in found.items()}

    def _kind(self) -> tuple[str, Callable[[str], str]]:
        """The kind of tokenizer that decodes the same way, and a function that spells a token as
        this kind does."""
        decoder = json.dumps(self._data.get("decoder"))
        if '"ByteLevel"' in decoder:
            return "gpt2", str
        if '"WordPiece"' in decoder:
            prefix = self._data["decoder"].get("prefix", "##")
            return "bert", lambda text: (
                text.removeprefix(prefix) if text.startswith(prefix) else f"\u2581{text}")
        if "\u2581" in json.dumps(self._data.get("decoder"), ensure_ascii=False):
            return "llama", str
        raise UnsupportedModel(f"{self._path} has a decoder of unknown form",
                               hint="use the tokenizer in the model's own file")

    def _template(self, kind: str) -> dict[str, object]:
        """Metadata for the tokens that are put around a text, and for the space before it."""
        bare = self._tokenizer.encode("a", add_special_tokens=False).ids
        whole = self._tokenizer.encode("a").ids
        cuts = [i for i in range(len(whole)) if whole[i:i + len(bare)] == bare]
        before, behind = (whole[:cuts[0]], whole[cuts[0] + len(bare):]) if cuts else (whole, [])
        if len(before) > 1 or len(behind) > 1:
            raise UnsupportedModel(f"{self._path} puts more than one token before or after a text",
                                   hint="use the tokenizer in the model's own file")
        end = "seperator" if kind == "bert" else "eos"
        found: dict[str, object] = {
            "add_bos_token": bool(before), "add_eos_token": bool(behind),
            "add_sep_token": bool(behind), "add_space_prefix": bool(bare) and str(
                self._tokenizer.id_to_token(bare[0])).startswith("\u2581")}
        found |= {"bos_token_id": before[0]} if before else {}
        return found | ({f"{end}_token_id": behind[0]} if behind else {})


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"{path} isn't a tokenizer.json: {error}") from None
    except OSError as error:
        raise ModelNotFound(f"{path}: {error.strerror}",
                            hint="name a tokenizer.json") from None


def _text_only(text: str, path: str | os.PathLike[str]) -> Any:
    """A tokenizer that encodes the names of control tokens as plain text."""
    parsed = _parsed(text, path)
    parsed.encode_special_tokens = True
    return parsed


def _without_prefix(text: str) -> str:
    """A ``tokenizer.json`` like ``text`` that puts no space before a text."""
    def changed(part: Any) -> Any:
        if isinstance(part, list):
            return [changed(each) for each in part if not is_prefix(each)]
        if not isinstance(part, dict):
            return part
        kept = {key: None if is_prefix(value) else changed(value) for key, value in part.items()}
        if "prepend_scheme" in kept:
            kept["prepend_scheme"] = "never"
        if "add_prefix_space" in kept:
            kept["add_prefix_space"] = False
        return kept

    def is_prefix(part: Any) -> bool:
        return isinstance(part, dict) and part.get("type") == "Prepend"
    data = json.loads(text)
    for name in ("normalizer", "pre_tokenizer"):
        data[name] = None if is_prefix(data.get(name)) else changed(data.get(name))
    return json.dumps(data)


def _parsed(text: str, path: str | os.PathLike[str]) -> Any:
    try:
        import tokenizers
    except ImportError:
        raise InvalidArgument(
            f"{os.fspath(path)} needs PyPI's tokenizers, which isn't installed",
            hint=f'pip install "unladen[{EXTRA}]", or use the tokenizer in the model\'s file'
        ) from None
    try:
        parsed = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # noqa: BLE001 - the package raises nothing more specific
        raise InvalidArgument(f"{os.fspath(path)} isn't a tokenizer.json: {error}") from None
    parsed.no_padding()
    parsed.no_truncation()
    return parsed
