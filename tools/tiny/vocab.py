"""A small SentencePiece-style vocabulary: learned from text, used by greedy merging.

The pieces come from byte-pair merging inside words (a word is letters, or other signs, with the
"▁" that stands for the space before it), so no piece crosses a word's end. A piece's score is
minus the rank of its merge. :func:`encode` then does what a GGUF runtime does for
``tokenizer.ggml.model = "llama"``: join the neighbors whose joint piece scores best, leftmost
first, until none is left, and spell what remains in bytes. The model is trained on exactly that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

SPACE = "▁"
"""Stands for a space in pieces."""
WORD = re.compile(r"▁?[A-Za-z]+|▁?[^A-Za-z▁\n]+|▁|\n")
"""The words of the stories: a space belongs to what follows it."""
APART = re.compile(r"[A-Z][A-Za-z]*|▁?[a-z]+|[0-9]|▁?[^A-Za-z0-9▁\n]+|▁|\n")
"""The words of the dialogues: digits and capitalized words stand apart from the space before them,
so that a name or a number has the same tokens after a space, a quote and a line break."""
SPECIAL = ("<unk>", "<s>", "</s>")
UNK, BOS, EOS = range(3)
FIRST_BYTE = len(SPECIAL)


def learn(texts: Iterable[str], n_vocab: int, word: re.Pattern[str] = WORD, prefix: str = " ",
          marks: Sequence[str] = (), n_texts: int = 1, characters: str = "") -> list[str]:
    """The pieces of a vocabulary of ``n_vocab`` tokens: specials, bytes, merges, characters, marks.

    ``word`` finds the words, ``prefix`` is put before each text, ``marks`` are whole tokens. Words
    in fewer than ``n_texts`` texts are left out, ``characters`` are always in.
    """
    between = re.compile("|".join(map(re.escape, marks)) or r"(?!)")
    counts: Counter[str] = Counter()
    spread: Counter[str] = Counter()
    for text in texts:
        found = [w for part in between.split(text) for w in word.findall(mark(part, prefix))
                 if w != "\n"]
        counts.update(found)
        spread.update(set(found))
    counts = Counter({w: n for w, n in counts.items() if spread[w] >= n_texts})
    characters = "".join(sorted({*characters, *(c for word in counts for c in word)}))
    words = {word: list(word) for word in counts}
    merges: dict[str, None] = {}
    n_merges = n_vocab - FIRST_BYTE - 256 - len(characters) - len(marks)
    while len(merges) < n_merges:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, pieces in words.items():
            for pair in pairwise(pieces):
                pairs[pair] += counts[word]
        if not pairs:
            raise ValueError(f"the text has only {len(merges)} merges; n_vocab is too large")
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges["".join(best)] = None
        for word, pieces in words.items():
            if "".join(best) in word:
                words[word] = _join(pieces, best)
    return [*SPECIAL, *(f"<0x{b:02X}>" for b in range(256)), *merges, *characters,
            *marks]


def mark(text: str, prefix: str = " ") -> str:
    """``text`` as the merges see it: ``prefix`` in front, every space a "▁"."""
    return (prefix + text).replace(" ", SPACE)


def _join(pieces: list[str], pair: tuple[str, str]) -> list[str]:
    out: list[str] = []
    for piece in pieces:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return out


class Encoder:
    """Text to token ids with the vocabulary ``pieces``; remembers the words it has seen."""

    def __init__(self, pieces: Sequence[str], word: re.Pattern[str] = WORD, prefix: str = " ",
                 marks: Sequence[str] = ()) -> None:
        self.ids = {piece: i for i, piece in enumerate(pieces)}
        self.words: dict[str, list[int]] = {}
        self.word, self.prefix = word, prefix
        self.marks = re.compile(f"({'|'.join(map(re.escape, marks)) or '(?!)'})")

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``, without the begin and end tokens."""
        ids: list[int] = []
        for i, part in enumerate(self.marks.split(text)):
            if i % 2:
                ids.append(self.ids[part])
                continue
            for word in self.word.findall(mark(part, self.prefix)):
                if word not in self.words:
                    self.words[word] = self._word(word)
                ids += self.words[word]
        return ids

    def _word(self, word: str) -> list[int]:
        pieces = list(word)
        while True:
            joint = [(self.ids[a + b], i) for i, (a, b) in enumerate(pairwise(pieces))
                     if a + b in self.ids]
            if not joint:
                break
            _, i = min(joint)
            pieces[i:i + 2] = [pieces[i] + pieces[i + 1]]
        return [i for piece in pieces for i in self._piece(piece)]

    def _piece(self, piece: str) -> list[int]:
        if piece in self.ids:
            return [self.ids[piece]]
        return [FIRST_BYTE + b for b in piece.encode()]


def scores(pieces: Sequence[str]) -> list[float]:
    """The score of every piece: 0 for specials and bytes, minus the rank for the others."""
    first = FIRST_BYTE + 256
    return [0.0] * first + [-float(i) for i in range(len(pieces) - first)]
