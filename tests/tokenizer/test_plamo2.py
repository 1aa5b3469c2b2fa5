"""PLaMo 2's tokenizer equals a slow, direct implementation."""

from __future__ import annotations

import numpy as np
import pytest

from unladen.errors import GGUFError
from unladen.tokenizer import StreamDecoder, Tokenizer

MARKS = [f"<0x{b:02X}>" for b in range(256)]


def metadata(words: dict[str, float], **more: object) -> dict[str, object]:
    names = ["<|plamo:unk|>", "<|plamo:bos|>", "<|plamo:eos|>", "<|plamo:pad|>", *MARKS, *words]
    fields = {"model": "plamo2", "tokens": names, "scores": [0.0] * 260 + list(words.values()),
              "token_type": [2, 3, 3, 3] + [6] * 256 + [1] * len(words), **more}
    return {f"tokenizer.ggml.{key}": value for key, value in fields.items() if value is not None}


def slow(text: str, words: dict[str, float]) -> list[str]:
    """The cheapest tokens from each position to the end; between equals the longest first token."""
    best: dict[int, tuple[int, list[str]]] = {len(text): (0, [])}
    for at in reversed(range(len(text))):
        ways = [(10_000_000 + best[at + 1][0],
                 [MARKS[b] for b in text[at].encode()] + best[at + 1][1])]
        for n in range(1, len(text) - at + 1):
            word = text[at:at + n]
            if word in words and words[word] > -2000:
                cost = best[at + n][0] - round(words[word] * 1e4)
                if cost <= ways[-1][0]:
                    ways.append((cost, [word, *best[at + n][1]]))
        best[at] = ways[-1]
    return best[0][1]


def test_same_as_the_slow_statement(rng: np.random.Generator) -> None:
    for _ in range(30):
        words = {"".join(rng.choice(list("abé中 "), rng.integers(1, 6))): -float(score)
                 for score in rng.integers(1, 9, 40)}
        words["aaa"] = -3000.0  # never used
        made = Tokenizer.from_gguf(metadata(words))
        for _ in range(30):
            text = "".join(rng.choice(list("abé中 x🚀"), rng.integers(1, 30)))
            ids = made.encode(text)
            assert [made.token_text(i) for i in ids] == slow(text, words)
            assert made.decode(ids) == text
            stream = StreamDecoder(made)
            assert "".join([*map(stream.push, ids), stream.flush()]) == text


def test_marks_and_control_tokens() -> None:
    made = Tokenizer.from_gguf(metadata({"<|plamo:eos|>x": -1.0}))
    assert (made.bos_id, made.eos_id, made.unk_id) == (1, 2, 0)
    assert made.encode("\ufeffA") == made.encode("A")
    assert made.encode("<|plamo:eos|>") == [2]
    assert len(made.encode("<|plamo:eos|>", special=False)) == 13
    assert made.decode(made.encode("U+2581 is ▁")) == "U+2581 is ▁"


@pytest.mark.parametrize(("key", "value", "problem"), [
    ("scores", None, "is missing"), ("scores", [3e5] * 260, "value beyond 2"),
    ("scores", [float("inf")] * 260, "has inf for token 0"),
    ("token_type", [1] * 260, "no byte token <0x00>")])
def test_faults_are_named(key: str, value: object, problem: str) -> None:
    with pytest.raises(GGUFError, match=rf"tokenizer\.ggml\.\w+ .*{problem}"):
        Tokenizer.from_gguf(metadata({}, **{key: value}))


def test_long_texts() -> None:
    made = Tokenizer.from_gguf(metadata({"a": -1.0, "aa": -1.5, "a" * 60: -2.0}))
    assert len(made.encode("a" * 300_000)) == 5000


class Raw:
    """Texts as in a file; they needn't be UTF-8."""

    def __init__(self, texts: list[bytes]) -> None:
        self.buffer = np.frombuffer(b"".join(texts), np.uint8)
        self.lengths = np.array([len(text) for text in texts], np.int64)
        self.offsets = np.cumsum(self.lengths) - self.lengths


def test_a_special_token_that_is_half_a_character() -> None:
    """The text after the special token begins in the middle of a character."""
    fields = metadata({"x": -1.0})
    names = [str(name).encode() for name in fields["tokenizer.ggml.tokens"]]  # type: ignore
    names[1] = "é".encode()[:1]
    made = Tokenizer.from_gguf({**fields, "tokenizer.ggml.tokens": Raw(names)})
    ids = made.encode("xéx")
    assert [made.token_text(i) for i in ids] == ["x", "\ufffd", "<0xA9>", "x"]
    assert made.decode(ids, special=True) == "xéx"
