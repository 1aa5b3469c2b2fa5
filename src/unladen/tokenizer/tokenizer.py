"""The tokenizer of a GGUF file: text to token ids and back, from the file's metadata alone."""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument, UnsupportedModel
from unladen.parameters.kinds import INT32_MAX, Text, Whole, flag, token_ids
from unladen.tokenizer import kinds, native, special
from unladen.tokenizer.fields import MAX_VOCAB_BYTES, Fields, TokenType
from unladen.tokenizer.kinds.base import Tokens

_TEXT: Final = Text()
_ID: Final = Whole(-INT32_MAX)
# The spaces that transformers' clean_up_tokenization removes.
_SPACE_TO_CLEAN: Final = re.compile(r" (') | (?=[?!.,]|n't|'(?:m|s|ve|re))")


class Tokenizer:
    """A model's tokenizer. Threads may share it. ``decode(encode(s)) == s``, with exceptions.

    Some vocabularies lose information: SentencePiece takes U+2581 for a space, and a character
    without a token becomes the unknown token. WordPiece and unigram models normalize the text first
    (case, accents, spaces), so decoding returns the normalized text.

    * ``kind``: ``tokenizer.ggml.model``.
    * ``pre``: the name of the pre-tokenizer, or None.
    * ``token_ids``: special ids by name (``bos eos eot eom unknown sep pad cls mask fim_pre …``),
      from the file's keys or by the tokens' texts.
    * ``eog_ids``: ids that end a generation.
    * ``suppress_ids``: ids that are never generated.
    * ``add_bos``, ``add_eos``: what :meth:`encode` adds by default.
    * ``add_sep``: whether a separator stands between two texts (WordPiece ends a text in one).
    * ``clean_spaces``: whether the model's own tokenizer removes spaces after decoding.
    """

    def __init__(self, fields: Fields) -> None:
        name = fields.string("model")
        if name is None:
            raise UnsupportedModel(f"{fields.path}: tokenizer.ggml.model is missing",
                                   hint="the file has no tokenizer: convert it again")
        kind = kinds.get(name)
        self._vocab = _vocab(fields, kind)
        n_vocab = len(self._vocab)
        defaults = kind.defaults(fields)
        types = fields.types(n_vocab)
        ids = special.token_ids(fields, self._vocab, types, defaults.token_ids)
        fields.warn(n_vocab)
        if types is None:
            types = special.untold_types(n_vocab, ids)

        self.kind = name
        self.pre = fields.string("pre")
        by_text = special.ByText(self._vocab, types, fields.path)
        by_text.add_ids(ids)
        self.token_ids: Mapping[str, int] = ids
        self.eog_ids = by_text.eog_ids(ids)
        self.suppress_ids = special.suppressed(fields, n_vocab)
        self._path = fields.path
        self._warned: set[str] = set()
        self.add_bos = fields.flag("add_bos_token", defaults.add_bos)
        if kind.needs_bos and not self.add_bos:
            self.add_bos = True
            self._warn_once("the file says that no BOS is added, but such models need it: BOS is "
                            "added")
        self.add_eos = fields.flag("add_eos_token", defaults.add_eos)
        self.add_sep = fields.flag("add_sep_token", defaults.add_sep)
        self._end = "SEP" if kind.ends_in_sep else "EOS"
        self.clean_spaces = defaults.clean_spaces
        special.check_lengths(fields, types)
        self._types = types
        self._encodes = kind.encodes
        self._merges_spaces = kind.merges_spaces(fields)
        unk = self.unk_id
        if unk in (self.bos_id, self.eos_id):
            unk = None  # StarCoder's file names its end of text here, which no text may become
        self._native = kind.build(fields, Tokens(
            self._vocab, types, special.strips(fields, self._vocab, types), unk))

    @staticmethod
    def from_gguf(metadata: Mapping[str, object], path: str = "metadata") -> Tokenizer:
        """The tokenizer of a file with this metadata; ``path`` names it in errors.

        Arrays may be lists, NumPy arrays, or what :mod:`unladen.gguf` reads. Raises
        :class:`~unladen.errors.GGUFError` where keys contradict each other, and
        :class:`~unladen.errors.UnsupportedModel` for an unknown kind or pre-tokenizer.
        """
        return Tokenizer(Fields(metadata, path))

    @property
    def n_vocab(self) -> int:
        """Number of tokens."""
        return len(self._vocab)

    @property
    def adds(self) -> tuple[str, ...]:
        """The tokens that :meth:`encode` adds by default: "BOS", and "EOS" or "SEP"."""
        end = self.add_sep if self._end == "SEP" else self.add_eos
        return ("BOS",) * self.add_bos + (self._end,) * end

    @property
    def bos_id(self) -> int | None:
        """The token that begins a text."""
        return self.token_ids.get("bos")

    @property
    def eos_id(self) -> int | None:
        """The token that ends a text."""
        return self.token_ids.get("eos")

    @property
    def unk_id(self) -> int | None:
        """The token for text that has no token."""
        return self.token_ids.get("unknown")

    def encode(self, text: str, *, add_bos: bool | None = None, add_eos: bool | None = None,
               special: bool = True, add_special: bool | None = None, continues: bool = False,
               plain: Sequence[tuple[int, int]] = ()) -> list[int]:
        """The ids of ``text``.

        * ``add_special``: add the tokens in :attr:`adds` (True), or none (False). None adds them
          unless the text ``continues`` another.
        * ``add_bos``, and ``add_eos`` for the token that ends a text (EOS or SEP): override
          ``add_special``; None doesn't. A vocabulary without such a token adds none.
        * ``special``: names of control tokens in the text become these tokens. Without it text
          can't produce a control token.
        * ``continues``: the text continues another one, so no space is put before it.
        * ``plain``: ranges of characters, in order and apart, as (begin, end). A name of a control
          token that overlaps one of them stays text, as all do without ``special``.

        A text that begins with BOS gets no second one, because models answer badly to that; this is
        logged once. The same holds for EOS. Raises :class:`InvalidArgument` where the vocabulary
        can't write ``text``, and :class:`UnsupportedModel` where the file has no tokenizer.
        """
        text = _TEXT.of("text", text)
        special, continues = flag("special", special), flag("continues", continues)
        adds = () if add_special is False or (add_special is None and continues) else self.adds
        if add_special is not None:
            flag("add_special", add_special)
        begins = "BOS" in adds if add_bos is None else flag("add_bos", add_bos)
        ends = self._end in adds if add_eos is None else flag("add_eos", add_eos)
        if not self._encodes:
            raise UnsupportedModel(f"a tokenizer of kind {self.kind!r} can't encode text",
                                   arch=self.kind, hint="pass token ids")
        try:
            ids = self._bare(text, special, continues, plain)
        except ValueError as error:
            raise InvalidArgument(f"text can't be encoded: {error}",
                                  hint="the vocabulary has neither tokens for it nor an unknown "
                                       "token: leave it out") from None
        return self._framed(ids, begins, ends)

    def _framed(self, ids: list[int], add_bos: bool, add_end: bool) -> list[int]:
        bos, end = self.bos_id, self.token_ids.get(self._end.lower())
        begins = add_bos and ids[:1] == [bos]
        ends = add_end and ids[begins:][-1:] == [end]  # one token can't be both BOS and EOS
        if begins:
            self._warn_once("a text begins with BOS already, so no second one is added: leave it "
                            "out of the text or pass add_bos=False")
        if ends:
            self._warn_once(f"a text ends in {self._end} already, so no second one is added: leave "
                            "it out of the text or pass add_eos=False")
        before = [bos] if add_bos and bos is not None and not begins else []
        return before + ids + ([end] if add_end and end is not None and not ends else [])

    @functools.cached_property
    def control_texts(self) -> Mapping[str, int]:
        """The ids of control tokens and of the unknown token, by the texts that stand for them."""
        ids = np.flatnonzero(np.isin(self._types, (TokenType.CONTROL, TokenType.UNKNOWN)))
        texts = ((self._vocab.text(token_id).decode(errors="replace"), token_id)
                 for token_id in ids.tolist())
        return {text: token_id for text, token_id in texts if text}

    @functools.cached_property
    def control_marks(self) -> re.Pattern[str]:
        """A pattern that finds the texts of :attr:`control_texts`, at each place the longest."""
        texts = sorted(self.control_texts, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts)) or r"(?!)")

    def _bare(self, text: str, special: bool, continues: bool,
              plain: Sequence[tuple[int, int]]) -> list[int]:
        """The ids of ``text`` without added tokens; raises ValueError where it can't be written."""
        # Where spaces merge, the space that is put before a text replaces those at its beginning.
        fresh = not continues or (self._merges_spaces and text[:1].isspace())
        if not plain:
            return self._native.encode(text.encode(), special, fresh)
        return self._native.encode(text.encode(), special, fresh, _in_bytes(text, plain))

    def _warn_once(self, what: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            logging.getLogger("unladen").warning("%s: %s", self._path, what)

    def decode(self, ids: Iterable[int] | npt.NDArray[np.integer], *, special: bool = False,
               at_start: bool = True, clean_spaces: bool = False) -> str:
        """The text of ``ids``; bytes that aren't UTF-8 become U+FFFD.

        * ``special``: show control tokens, too.
        * ``at_start``: the ids begin a text, so the space that :meth:`encode` puts before one is
          removed; False for a continuation.
        * ``clean_spaces``: remove spaces before punctuation and contractions, even if the encoded
          text had them.

        Raises :class:`InvalidArgument` for an id outside the vocabulary.
        """
        array = np.array(token_ids("tokens", ids), np.int64)
        try:
            raw = self._native.decode(array, flag("special", special), flag("at_start", at_start))
        except (IndexError, OverflowError) as error:
            raise InvalidArgument(str(error), hint=f"ids are below {self.n_vocab}") from None
        text = raw.decode(errors="replace")
        return _SPACE_TO_CLEAN.sub(r"\1", text) if flag("clean_spaces", clean_spaces) else text

    def token_bytes(self, token_id: int, *, special: bool = True, at_start: bool = False
                    ) -> bytes:
        """The bytes that a token stands for, which may be a part of a character.

        ``special`` and ``at_start`` are as in :meth:`decode`. Raises :class:`InvalidArgument`.
        """
        return self._native.piece(self._checked(token_id), special, at_start)

    def token_text(self, token_id: int) -> str:
        """A token's text as it is in the file, in the alphabet of the tokenizer's kind."""
        return self._vocab.text(self._checked(token_id)).decode(errors="replace")

    def is_control(self, token_id: int) -> bool:
        """Whether a token is a control token, which isn't shown to readers."""
        return bool(self._types[self._checked(token_id)] == TokenType.CONTROL)

    @property
    def hidden_ids(self) -> list[int]:
        """The tokens that no text turns into: control tokens, unused ones, the unknown token."""
        found: list[int] = np.flatnonzero(np.isin(
            self._types, (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.UNUSED))).tolist()
        return found

    def starts_text(self, token_id: int) -> bool:
        """Whether text after this token begins a new text, as after a control token."""
        return self._native.starts_fresh(self._checked(token_id))

    def warn_unknown(self, option: str, token_ids: Iterable[int]) -> None:
        """Log a warning, once for each, for ids in ``option`` that no token has: they have no
        effect."""
        for token_id in token_ids:
            if not 0 <= token_id < len(self._vocab):
                self._warn_once(f"{option} names token {token_id}, but ids are below "
                                f"{self.n_vocab}: it has no effect")

    def _checked(self, token_id: int) -> int:
        token_id = _ID.of("token_id", token_id)
        if not 0 <= token_id < len(self._vocab):
            raise InvalidArgument(f"there is no token {token_id}",
                                  hint=f"ids are below {self.n_vocab}")
        return token_id


def _in_bytes(text: str, ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """``ranges`` of characters of ``text`` as ranges of its bytes in UTF-8."""
    found, done, at = [], 0, 0
    for begin, end in ranges:
        first = at + len(text[done:begin].encode())
        done, at = end, first + len(text[begin:end].encode())
        found.append((first, at))
    return found


def _vocab(fields: Fields, kind: type[kinds.Kind]) -> native.Vocab:
    tokens = fields.strings("tokens")
    if tokens is None:
        if kind.encodes:
            raise fields.error("tokens", "is missing", hint="the file has no vocabulary")
        nothing = np.zeros(fields.vocab_size(), np.int64)  # lengths and offsets of empty texts
        return native.Vocab(np.zeros(0, np.uint8), nothing, nothing)
    longest, total = tokens.lengths.max(initial=0), tokens.lengths.sum()
    if longest > kind.max_token_bytes or total > MAX_VOCAB_BYTES:
        raise fields.error("tokens", f"has {total} bytes of text, {longest} in one token; at most "
                           f"{MAX_VOCAB_BYTES} and {kind.max_token_bytes} are allowed")
    try:
        return native.Vocab(tokens.buffer, tokens.offsets, tokens.lengths)
    except ValueError as error:
        raise fields.error("tokens", str(error)) from None
