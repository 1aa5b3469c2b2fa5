"""States of GBNF grammars: the mask that is kept for a state is the one that is made."""

from __future__ import annotations

import time

import numpy as np
import pytest
from numpy.random import Generator

from sample.constrain.conftest import END, MARK
from sample.constrain.grammars import matches, random_grammar, random_text
from sample.constrain.test_gbnf import by_characters
from unladen.chat.wanted import BehindBlank
from unladen.sample.constrain import guide as guides
from unladen.sample.constrain.base import Mask, n_words
from unladen.sample.constrain.gbnf import Gbnf
from unladen.sample.constrain.guide import Compiled, Guide, Guided
from unladen.sample.constrain.language import After, Exactly, Joined, OneOf
from unladen.sample.constrain.states import LOST, MAX_KEPT, MAX_STATES, Spelled, states_of

JSON = r'''
root ::= object
value ::= object | "[" (value ("," value)*)? "]" | string | [0-9]+
object ::= "{" (string ":" value ("," string ":" value)*)? "}"
string ::= "\"" [^"\\]* "\""
'''


def mask_after(constraint: Guided, n_vocab: int) -> Mask:
    out = np.zeros(n_words(n_vocab), np.uint32)
    constraint.mask(out)
    return out


def compiled(guide: Guide, text: str) -> Compiled:
    made = Gbnf(text).make(guide)
    assert isinstance(made, Compiled)
    return made


def test_masks_are_those_of_the_grammar_by_characters(rng: Generator, of_bytes: Guide) -> None:
    """Masks in every state, kept or made, against the grammar without lexemes and states. Guesses
    that are taken back again change nothing."""
    n_kept = n_masks = 0
    for _ in range(25):
        text = random_grammar(rng)
        kept, plain = compiled(of_bytes, text), by_characters(text).make(of_bytes)
        for _ in range(25):
            ours, expected = kept(), plain()
            assert isinstance(expected, Guided)
            for byte in [*random_text(rng).encode(), END, END]:
                n_masks += 1
                n_kept += ours._states[-1] in kept.masks
                mask = mask_after(ours, MARK + 1)
                np.testing.assert_array_equal(mask, mask_after(expected, MARK + 1))
                allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little"))
                guesses = [int(guess) for guess in allowed[:1]] * int(rng.integers(0, 3))
                guesses = guesses[:ours.n_valid(guesses)]
                for guess in guesses:
                    ours.accept(guess)
                    mask_after(ours, MARK + 1)
                if guesses:
                    ours.rollback(len(guesses))
                if byte not in allowed:
                    break
                ours.accept(byte)
                expected.accept(byte)
    assert n_kept > n_masks / 4


@pytest.mark.parametrize(("begin", "end"), [("<t>", "</t>"), ("<mark>", "<mark>"), ("<t>", "aab"),
                                            ("", "a</t><mark>")])
def test_masks_of_a_grammar_behind_reasoning(
        rng: Generator, monkeypatch: pytest.MonkeyPatch, of_bytes: Guide, begin: str, end: str
        ) -> None:
    """Where a model may think first, in a chat: marks are text or special tokens."""
    plain = Guide(of_bytes.tokens, [END, MARK], [END], list)
    n_kept = n_known = 0
    for _ in range(15):
        grammar = Gbnf(random_grammar(rng))
        behind = After(end, BehindBlank(grammar))
        language = OneOf([grammar, Joined([Exactly(begin), behind])]) if begin else behind
        kept = language.make(of_bytes)
        with monkeypatch.context() as patch:
            patch.setattr(guides, "states_of", lambda language, special_ids: None)
            expected_of = language.make(plain)
        assert isinstance(kept, Compiled)
        n_known += kept.states is not None
        for _ in range(20):
            thought = "".join(rng.choice(list("ab</t>"), int(rng.integers(0, 9))))
            blank = " " * int(rng.choice([0, 1, 8, 9]))
            text = str(rng.choice(["", begin + thought + end + blank])) + random_text(rng)
            ours, expected = kept(), expected_of()
            assert isinstance(ours, Guided) and isinstance(expected, Guided)
            for token in [*of_bytes.ids_of(text), END, END]:
                n_kept += ours._states[-1] in kept.masks
                mask = mask_after(ours, MARK + 1)
                np.testing.assert_array_equal(mask, mask_after(expected, MARK + 1), err_msg=text)
                if not int(mask[token // 32]) >> token % 32 & 1:
                    break
                ours.accept(token)
                expected.accept(token)
    assert n_known and n_kept > 50


def test_states_match(rng: Generator) -> None:
    """A text has a state behind which it may end if it matches, and only then."""
    for _ in range(100):
        grammar = Gbnf(random_grammar(rng))
        states = states_of(grammar, {})
        assert states is not None
        for _ in range(20):
            text = random_text(rng)
            state = states.begin
            for c in text:
                state = states.after(state, ord(c), c.encode())
            is_end = state != LOST and 0 in states._sets[state[0]]
            assert is_end == matches(grammar.rules, text), text


def test_the_same_state_comes_again() -> None:
    """What was written before doesn't matter, only what may follow."""
    states, known = states_of(Gbnf(JSON), {}), list[bytes]()
    assert states is not None

    def after(*pieces: bytes) -> tuple[int, bytes]:
        state = states.begin
        for piece in pieces:
            state = states.after(state, len(known), piece)
            known.append(piece)
        return state

    assert after(b'{"a":[1') == after(b"{", b'"bc"', b":[[2],", b"37") != LOST
    assert after(b'{"a":{"b":1') != after(b'{"a":1')
    assert after(b'{"\xc3\xa9') == after(b'{"') != after(b'{"\xc3') == after(b'{"e', b"\xc3")
    assert after(b'{"\xc3', b"\xa9") == after(b'{"\xe2\x82', b"\xac") == after(b'{"')
    assert after(b"{]") == after(b'{"\xffaaa') == after(b'{"\xa9') == LOST


@pytest.mark.parametrize(("text", "letters"), [
    ('root ::= "a" root "b" | "a" root "c" | "x"', b"a"),  # n letters, 2 ** n places
    ('root ::= [ab]* "a" [ab]{900}', b"ab"),               # 2 ** 900 states
    ('root ::= "(" root ")" | "x"', b"("),                 # a state for each depth
    ("root ::= " + '"a"? ' * 310, b"a")])                  # 310 places in the first state
def test_hostile_grammars(rng: Generator, of_bytes: Guide, text: str, letters: bytes) -> None:
    """Work and memory are bounded, and masks are made where states are lost."""
    made = compiled(of_bytes, text)
    states = made.states
    assert states is not None
    written = [int(byte) for byte in rng.choice([*letters], 3000)]
    start, state = time.process_time(), states.begin
    for byte in written:
        state = states.after(state, byte, bytes([byte]))
    assert time.process_time() - start < 10  # a tenth of a second; more only if it isn't bounded
    assert state == LOST
    assert len(states._sets) <= MAX_STATES and len(states._places) < 2 * MAX_KEPT
    constraint = made()
    for byte in written[:3]:
        assert int(mask_after(constraint, MARK + 1)[byte // 32]) >> byte % 32 & 1
        constraint.accept(byte)


def test_what_a_text_may_begin_with_is_not_guessed() -> None:
    """A grammar that is too large to be looked through may begin with anything."""
    for text, expected in (('root ::= "a"? " "', True), ('root ::= "a" " "', False),
                           ('root ::= ' + '"a"? ' * 310, True)):
        spelled = Spelled({})
        whole = Gbnf(text).expression(spelled)
        assert whole is not None and spelled.may_begin(whole, " \n") == expected


def test_masks_that_are_kept_are_few(monkeypatch: pytest.MonkeyPatch, of_bytes: Guide) -> None:
    """The latest ones, also for a vocabulary whose one mask is too large to be kept."""
    text = 'root ::= "a"{1,90} # few'
    made = compiled(of_bytes, text)
    for n_most in (4, 0):
        monkeypatch.setattr(guides, "MASK_BYTES", n_most * 4 * of_bytes.n_mask_words)
        constraint = made()
        for _ in range(20):
            mask_after(constraint, MARK + 1)
            assert len(made.masks) <= n_most
            constraint.accept(ord("a"))
