"""A budget for reasoning: after some tokens or seconds its end is forced, then the answer comes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import Generator

from sample.constrain.conftest import END, MARK, allowed, follows
from unladen.errors import InvalidArgument
from unladen.sample import SamplerChain
from unladen.sample.constrain.budget import Budget, Budgeted
from unladen.sample.constrain.guide import Guide
from unladen.sample.constrain.language import After, Exactly, Joined, Language, OneOf
from unladen.sample.constrain.regex import Regex

N_VOCAB = MARK + 1


def test_a_number_of_tokens(of_bytes: Guide) -> None:
    constraint: Any = Budgeted("</t>", n_tokens=5, closing=" </t>\n").make(of_bytes)()
    assert len(allowed(constraint, N_VOCAB)) == N_VOCAB
    assert constraint.n_valid([97] * 9) == 5, "a draft ends where the budget does"
    for _ in range(5):
        assert constraint.forced() == []
        constraint.accept(97)
    assert bytes(constraint.forced()) == b" </t>\n"
    for byte in b" </t>\n":
        assert allowed(constraint, N_VOCAB) == [byte] and constraint.n_valid([byte, 0]) == 1
        constraint.accept(byte)
    assert constraint.forced() == [] and len(allowed(constraint, N_VOCAB)) == N_VOCAB
    assert constraint.n_valid([97] * 9) == 9


def test_a_reasoning_that_ends_by_itself(of_bytes: Guide) -> None:
    constraint: Any = Budgeted("</t>", n_tokens=6).make(of_bytes)()
    for byte in b"a</t>answer of any length":
        assert constraint.forced() == []
        constraint.accept(byte)


def test_a_number_of_seconds(of_bytes: Guide) -> None:
    now = 100.0
    wish = Budgeted("</t>", seconds=2.0)
    constraint = Budget(None, wish, [*b"</t>"], of_bytes.tokens, lambda: now)
    for seconds in (0, 1, 1.9):
        now = 100 + seconds
        constraint.accept(97)
        assert constraint.forced() == []
    now = 102.0
    constraint.accept(97)
    assert bytes(constraint.forced()) == b"</t>"
    constraint.rollback(1)
    assert constraint.forced() == []


def test_only_where_there_is_a_reasoning(of_bytes: Guide) -> None:
    """Its mark may come after white space; a text that begins otherwise has no budget."""
    for text, is_spent in ((b"\n<t>abcd", True), (b"<t>abcde", True), (b"<table>a", False),
                           (b"abcdefgh", False)):
        constraint: Any = Budgeted("</t>", n_tokens=8, begin="<t>").make(of_bytes)()
        for byte in text:
            constraint.accept(byte)
        assert bool(constraint.forced()) == is_spent, text


@pytest.mark.parametrize("mark", ["</t>", "<mark>"])
def test_then_an_answer_of_a_form(of_bytes: Guide, mark: str) -> None:
    whole = After(mark, Regex("\n?[0-9]{3}"))
    make = Budgeted(mark, n_tokens=4, whole=whole, closing=f"{mark}\n").make(of_bytes)
    spent: Any = make()
    assert follows(spent, b"abcd", N_VOCAB)
    assert spent.forced() == of_bytes.ids_of(f"{mark}\n")
    assert follows(spent, [*spent.forced(), *b"123", END], N_VOCAB)
    assert follows(make(), [97, *of_bytes.ids_of(mark), *b"123", END], N_VOCAB)
    assert not follows(make(), [97, *of_bytes.ids_of(mark), *b"12", END], N_VOCAB)
    assert whole.read(f"abc{mark}123") == "123"


def test_taking_back(rng: Generator, of_bytes: Guide) -> None:
    """As if it never came, wherever the budget ends."""
    make = Budgeted("</t>", n_tokens=7, whole=After("</t>", Regex("[0-9]*"))).make(of_bytes)
    for _ in range(30):
        walked: Any = make()
        straight: Any = make()
        for _ in range(16):
            n = int(rng.integers(0, 5))
            for _ in range(n):
                walked.accept(int(rng.choice(allowed(walked, END))))
            if n:
                walked.rollback(n)
            tokens = allowed(walked, N_VOCAB)
            assert tokens == allowed(straight, N_VOCAB)
            assert list(walked.forced()) == list(straight.forced())
            token = int(rng.choice([t for t in tokens if t != END]))
            walked.accept(token)
            straight.accept(token)


@pytest.mark.parametrize("begin", ["", "<t>"])
def test_a_model_that_ends_inside_the_reasoning(of_bytes: Guide, begin: str) -> None:
    """The closing is written in place of the end, wherever a model's logits ask for it, and then
    the answer. Before a reasoning begins and behind it, nothing is changed."""
    whole: Language = After("</t>", Regex("\n?[0-9]{3}"))
    if begin:
        whole = OneOf([Regex("[0-9]{3}"), Joined([Exactly(begin), whole])])
    make = Budgeted("</t>", whole=whole, begin=begin, closing="</t>\n").make(of_bytes)
    for inside in (b"", b"ab", b"ab</", b"\xc3\xa4"):
        sampler = SamplerChain().constraint(make).greedy().build()
        got = [sampler.sample(scripted(token)) for token in (*begin.encode(), *inside, END)]
        while (forced := sampler.forced()) is not None:
            got.append(sampler.sample(scripted(END)))
            assert got[-1] == forced
        assert bytes(got) == begin.encode() + inside + b"</t>\n"
        assert sampler.sample(scripted(END)) in b"0123456789", "the answer must not end yet"
        assert [sampler.sample(scripted(token)) for token in (*b"12", END)] == [*b"12", END]
    character: Any = make()
    for byte in (*begin.encode(), 0xC3):
        character.accept(byte)
    assert not character.instead_of_end(), "not within a character"


def scripted(token: int) -> Any:
    """Logits of which ``token`` is the best, and then digits."""
    logits = np.zeros(N_VOCAB, np.float32)
    logits[48:58] = 1
    logits[token] = 2
    return logits


def test_a_text_that_may_end_inside_its_reasoning(rng: Generator, of_bytes: Guide) -> None:
    """It ends there; what comes after the end is taken back as if it never came."""
    make = Budgeted("</t>", whole=After("</t>", Regex("[0-9]{3}")), may_end=True).make(of_bytes)
    constraint: Any = make()
    for n in range(8):
        assert END in allowed(constraint, N_VOCAB) and constraint.instead_of_end() == ()
        constraint.accept(END)
        assert constraint.forced() == [] and constraint.n_valid([97]) == 0
        constraint.accept(int(rng.integers(END)))
        constraint.rollback(2)
        assert constraint.way_out(50, END) == []
        constraint.accept(97 + n)
    assert follows(constraint, b"</t>", N_VOCAB)
    assert END not in allowed(constraint, N_VOCAB)
    assert follows(constraint, [*b"123", END], N_VOCAB)


def test_a_closing_must_close(of_bytes: Guide) -> None:
    with pytest.raises(InvalidArgument, match="must have the mark"):
        Budgeted("</t>", n_tokens=1, closing="stop").make(of_bytes)


def test_a_token_whose_mask_was_made_before_the_time_was_over(of_bytes: Guide) -> None:
    """A mask that was made ahead may let another token pass; then the whole closing follows it."""
    now = 0.0
    constraint = Budget(None, Budgeted("</t>", seconds=1.0), [*b"</t>"], of_bytes.tokens,
                        lambda: now)
    constraint.accept(97)
    now = 2.0
    for late in b"bc":
        constraint.accept(late)
        assert bytes(constraint.forced()) == b"</t>"
    for byte in b"</t>":
        assert allowed(constraint, N_VOCAB) == [byte]
        constraint.accept(byte)
    assert constraint.forced() == []
