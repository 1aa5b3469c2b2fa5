"""Special tokens in text, ids that keys name, ends of generation."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unladen.errors import GGUFError, InvalidArgument, UnsupportedModel
from unladen.tokenizer import Tokenizer


def texts(tokenizer: Tokenizer, text: str, **options: bool) -> list[str]:
    return [tokenizer.token_text(i) for i in tokenizer.encode(text, add_bos=False, **options)]


def test_control_tokens_only_when_asked(bpe: Tokenizer) -> None:
    assert texts(bpe, "a<|endoftext|>b") == ["a", "<|endoftext|>", "b"]
    assert texts(bpe, "<|endoftext|>", special=False) == list("<|endoftext|>")


def test_user_defined_tokens_always(bpe: Tokenizer) -> None:
    assert texts(bpe, "a<tool>b", special=False) == ["a", "<tool>", "b"]


def test_leftmost_then_longest(bpe: Tokenizer) -> None:
    assert texts(bpe, "<tool>x<tool>y") == ["<tool>x", "<tool>", "y"]
    assert texts(bpe, "<|end<|endoftext|>") == ["<|end", "<|endoftext|>"]
    assert texts(bpe, "<|endo") == ["<|end", "o"]


def test_control_tokens_are_hidden_in_text(bpe: Tokenizer) -> None:
    ids = bpe.encode("hello<|endoftext|><tool>")
    assert bpe.decode(ids) == "hello<tool>"
    assert bpe.decode(ids, special=True) == "hello<|endoftext|><tool>"


def test_bos_and_eos(bpe_metadata: dict) -> None:
    plain = Tokenizer.from_gguf(bpe_metadata)
    bos, eos = plain.bos_id, plain.eos_id
    assert plain.encode("a") == [ord("a")] and plain.adds == ()
    assert plain.encode("a", add_bos=True, add_eos=True) == [bos, *plain.encode("a"), eos]
    adding = Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.add_bos_token": True,
                                  "tokenizer.ggml.add_eos_token": True})
    assert adding.encode("") == [bos, eos] and adding.adds == ("BOS", "EOS")
    assert adding.encode("", add_bos=False, add_eos=False) == []


def test_one_token_for_bos_and_eos(bpe_metadata: dict) -> None:
    tokenizer = Tokenizer.from_gguf({
        **bpe_metadata, "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": True,
        "tokenizer.ggml.bos_token_id": bpe_metadata["tokenizer.ggml.eos_token_id"]})
    both = tokenizer.bos_id
    assert tokenizer.encode("") == tokenizer.encode("<|endoftext|>") == [both, both]
    assert tokenizer.encode("a") == [both, ord("a"), both]


def test_gemma4_needs_bos(bpe_metadata: dict, caplog: pytest.LogCaptureFixture) -> None:
    gemma = {**bpe_metadata, "tokenizer.ggml.model": "gemma4"}
    with caplog.at_level(logging.WARNING, "unladen"):
        assert Tokenizer.from_gguf(gemma).add_bos
        assert not caplog.records
        assert Tokenizer.from_gguf({**gemma, "tokenizer.ggml.add_bos_token": False}).add_bos
    assert "no BOS is added" in caplog.text


def test_no_second_bos_or_eos(bpe_metadata: dict, caplog: pytest.LogCaptureFixture) -> None:
    tokenizer = Tokenizer.from_gguf({**bpe_metadata, "tokenizer.ggml.add_bos_token": True,
                                     "tokenizer.ggml.add_eos_token": True})
    bos, eos = tokenizer.bos_id, tokenizer.eos_id
    with caplog.at_level(logging.WARNING, "unladen"):
        for _ in range(3):
            assert tokenizer.encode("<|begin|>a<|endoftext|>") == [bos, ord("a"), eos]
            assert tokenizer.encode("<|begin|>", add_bos=True, add_eos=False) == [bos]
    warnings = [record.getMessage() for record in caplog.records]
    assert ["begins with BOS" in w for w in warnings] == [True, False]
    assert "ends in EOS" in warnings[1]


@pytest.fixture(scope="module")
def forgeable(alphabet: list[str]) -> Tokenizer:
    """A byte-level vocabulary with a control token that merges can spell."""
    return Tokenizer.from_gguf({
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe",
        "tokenizer.ggml.tokens": [*alphabet, "hello", "<|endoftext|>", "<|end", "<tool>", "<tool>x",
                                  "he", "ll", "llo"],
        "tokenizer.ggml.token_type": [1] * 256 + [3] * 3 + [4] * 2 + [1] * 3,
        "tokenizer.ggml.merges": ["h e", "l l", "ll o", "he llo"],
        "tokenizer.ggml.add_bos_token": False})


@given(st.text(st.characters(codec="utf-8"), max_size=40) | st.lists(
    st.sampled_from(["<tool>", "<tool>x", "<|end", "<|endoftext|>", " ", "hello", "é"])
).map("".join))
def test_round_trip_and_no_forged_control_token(forgeable: Tokenizer, text: str) -> None:
    ids = forgeable.encode(text, special=False)
    assert not any(forgeable.is_control(i) for i in ids)
    assert forgeable.decode(ids) == text
    assert forgeable.decode(forgeable.encode(text), special=True) == text


@pytest.mark.parametrize(("text", "type_", "ends"), [
    ("<|im_end|>", 3, True), ("<|eot_id|>", 4, True), ("<end_of_turn>", 1, True),
    ("<|end_of_text|>", 3, True), ("<|endoftext|>", 3, True), ("</s>", 3, True), ("</s>", 1, False),
    ("<|im_start|>", 3, False)])
def test_ends_of_generation_by_name(bpe_metadata: dict, caplog: pytest.LogCaptureFixture,
                                    text: str, type_: int, ends: bool) -> None:
    tokens, types = (bpe_metadata[f"tokenizer.ggml.{k}"] for k in ("tokens", "token_type"))
    if text not in tokens:
        tokens.append(text)
        types.append(type_)
    with caplog.at_level(logging.WARNING, "unladen"):
        tokenizer = Tokenizer.from_gguf(bpe_metadata)
    found = tokens.index(text)
    assert (found in tokenizer.eog_ids) is ends
    assert tokenizer.is_control(found) is (ends or type_ == 3)
    assert bool(caplog.records) is (ends and type_ != 3)


def test_ends_of_generation_by_key(bpe_metadata: dict) -> None:
    bpe_metadata |= {"tokenizer.ggml.eot_token_id": 5, "tokenizer.ggml.eom_token_id": 6}
    assert Tokenizer.from_gguf(bpe_metadata).eog_ids >= {5, 6, bpe_metadata[
        "tokenizer.ggml.eos_token_id"]}


@pytest.mark.parametrize(("texts", "ids"), [
    ({"<|fim_prefix|>": "fim_pre", "<|fim_suffix|>": "fim_suf", "<|fim_middle|>": "fim_mid",
      "<|fim_pad|>": "fim_pad", "<|repo_name|>": "fim_rep", "<|file_sep|>": "fim_sep"}, 3),
    ({"<fim_prefix>": "fim_pre", "<fim_suffix>": "fim_suf", "<fim_middle>": "fim_mid"}, 0),
    ({"<\uff5cfim▁hole\uff5c>": "fim_suf", "<|eom_id|>": "eom", "<|eot_id|>": "eot"}, 2)])
def test_special_ids_by_text(bpe_metadata: dict, texts: dict[str, str], ids: int) -> None:
    tokens, types = (bpe_metadata[f"tokenizer.ggml.{k}"] for k in ("tokens", "token_type"))
    n = len(tokens)
    tokens += texts
    types += [1] * len(texts)
    tokenizer = Tokenizer.from_gguf(bpe_metadata)
    for i, name in enumerate(texts.values(), n):
        assert tokenizer.token_ids[name] == i and tokenizer.is_control(i)
    assert sum(i >= n for i in tokenizer.eog_ids) == ids


@pytest.mark.parametrize("key", ["fim_pre_token_id", "prefix_token_id"])
def test_keys_go_before_texts(bpe_metadata: dict, key: str) -> None:
    bpe_metadata["tokenizer.ggml.tokens"].append("<PRE>")
    bpe_metadata["tokenizer.ggml.token_type"].append(1)
    bpe_metadata[f"tokenizer.ggml.{key}"] = 7
    tokenizer = Tokenizer.from_gguf(bpe_metadata)
    assert tokenizer.token_ids["fim_pre"] == 7 and not tokenizer.is_control(tokenizer.n_vocab - 1)


def test_harmony(bpe_metadata: dict) -> None:
    """In harmony's format <|end|> separates messages, and such tokens are shown."""
    marks = ["<|end|>", "<|return|>", "<|call|>", "<|channel|>"]
    bpe_metadata["tokenizer.ggml.tokens"] += marks
    bpe_metadata["tokenizer.ggml.token_type"] += [3] * 4
    tokenizer = Tokenizer.from_gguf(bpe_metadata)
    end, stop, call, channel = range(tokenizer.n_vocab - 4, tokenizer.n_vocab)
    assert tokenizer.eog_ids >= {stop, call} and not tokenizer.eog_ids & {end, channel}
    assert tokenizer.decode([channel, end, stop]) == "<|channel|><|end|>"


def test_suppressed_tokens(bpe_metadata: dict, caplog: pytest.LogCaptureFixture) -> None:
    key = "tokenizer.ggml.suppress_tokens"
    assert Tokenizer.from_gguf(bpe_metadata).suppress_ids == frozenset()
    assert Tokenizer.from_gguf({**bpe_metadata, key: [5, 3, 5]}).suppress_ids == {3, 5}
    with pytest.raises(GGUFError, match="suppress_tokens isn't an array"):
        Tokenizer.from_gguf({**bpe_metadata, key: [1.5]})
    for bad in (-1, 10_000):
        caplog.clear()
        assert Tokenizer.from_gguf({**bpe_metadata, key: [3, bad]}).suppress_ids == {3}
        (record,) = caplog.records
        assert f"suppress_tokens names token {bad}, but ids" in record.getMessage()


def test_left_strip(bpe_metadata: dict) -> None:
    bpe_metadata["tokenizer.ggml.tokens"].append("<mask>")
    bpe_metadata["tokenizer.ggml.token_type"].append(3)
    bpe_metadata["tokenizer.ggml.pre"] = "jina-v2-code"
    assert texts(Tokenizer.from_gguf(bpe_metadata), "a \n<mask> b") == ["a", "<mask>", "Ġ", "b"]


def test_opaque_vocabularies() -> None:
    named = Tokenizer.from_gguf({"tokenizer.ggml.model": "test",
                                 "tokenizer.ggml.tokens": ["tok_0", "tok_1"]})
    assert named.decode([1, 0]) == "tok_1tok_0"
    with pytest.raises(UnsupportedModel, match="can't encode"):
        named.encode("tok_0")
    unnamed = Tokenizer.from_gguf({"tokenizer.ggml.model": "no_vocab",
                                   "general.architecture": "llama", "llama.vocab_size": 7})
    assert (unnamed.n_vocab, unnamed.decode([6, 0])) == (7, "")
    nothing = Tokenizer.from_gguf({"tokenizer.ggml.model": "no_vocab"})
    assert (nothing.n_vocab, nothing.decode([]), nothing.eog_ids) == (0, "", frozenset())
    with pytest.raises(InvalidArgument, match="below 0"):
        nothing.decode([0])


@pytest.mark.parametrize("size", [-1, 2**32, "7"])
def test_sizes_without_sense(size: object) -> None:
    with pytest.raises(GGUFError, match=r"llama\.vocab_size"):
        Tokenizer.from_gguf({"tokenizer.ggml.model": "none", "general.architecture": "llama",
                             "llama.vocab_size": size})


def test_unknown_kinds() -> None:
    with pytest.raises(UnsupportedModel, match=r"'runes'.*known: .*gpt2"):
        Tokenizer.from_gguf({"tokenizer.ggml.model": "runes"})
    with pytest.raises(UnsupportedModel, match=r"tokenizer\.ggml\.model is missing"):
        Tokenizer.from_gguf({})


def test_arguments_are_checked(bpe: Tokenizer) -> None:
    with pytest.raises(InvalidArgument, match="isn't Unicode"):
        bpe.encode("\ud800")
    for bad in (-1, bpe.n_vocab, 2**40):
        for call in (lambda i: bpe.decode([i]), bpe.token_bytes, bpe.token_text, bpe.is_control):
            with pytest.raises(InvalidArgument, match=str(bad)):
                call(bad)
    with pytest.raises(InvalidArgument):
        bpe.decode([2**70])


def test_clean_spaces(bpe: Tokenizer) -> None:
    ids = bpe.encode("do n't , it 's ' x ' !")
    assert bpe.decode(ids) == "do n't , it 's ' x ' !"
    assert bpe.decode(ids, clean_spaces=True) == "don't, it's'x'!"
