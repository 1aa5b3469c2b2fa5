"""Drafts under a constraint: the same tokens as without drafts, and no forbidden ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.conftest import EXACT, Load, check_idle
from engine.test_ahead import Log
from engine.test_speculate import eager
from engine.trouble import Trouble
from tiny_model import N_VOCAB
from unladen import SamplerChain
from unladen.errors import InvalidArgument
from unladen.sample import Constraint, mask_of

CIRCLE = [9, 20, 31, 8, 40]


class Circle(Constraint):
    """Mostly the next token of a circle or one of two others; every seventh token is none of
    these. What is allowed depends on all tokens before."""

    def __init__(self, fails: str = "") -> None:
        self.fails, self.n_rolled_back, self.n_masks = fails, 0, 0

    def allowed(self) -> list[int]:
        n, total = len(self.tokens), sum(self.tokens)
        if n % 7 == 6:
            return [100 + total % 50, 160 + total % 3]
        return [CIRCLE[n % 5], 200 + total % 20, 230 + n % 20]

    def mask(self, out: Any) -> None:
        self.n_masks += 1
        if self.fails == "mask" and len(self.tokens) == 30:
            raise Trouble("mask")
        row = np.zeros(N_VOCAB, bool)
        row[self.allowed()] = True
        out[:] = mask_of(row)

    def accept(self, token: int) -> None:
        assert token in self.allowed(), "never a token that isn't allowed, also in a draft"
        self.tokens.append(token)

    def rollback(self, n: int) -> None:
        self.n_rolled_back += n
        if self.fails == "rollback":
            raise Trouble("rollback")
        assert 1 <= n <= len(self.tokens)
        del self.tokens[-n:]


BIAS = dict.fromkeys(CIRCLE, 6.0)
"""Bias of the circle's tokens: they are likely enough to be drafted, and other tokens come now and
then."""


def chain(made: list[Circle], fails: str = "") -> SamplerChain:
    def make() -> Circle:
        made.append(Circle(fails))
        return made[-1]
    return SamplerChain().logit_bias(BIAS).constraint(make)


@pytest.mark.parametrize("ends", [
    lambda c: c.greedy(), lambda c: c.dist(5), lambda c: c.temp(0.7).top_k(2).dist(6),
    lambda c: c.penalties(20, 1.1).mirostat_v2(4.0)])
def test_the_same_tokens_as_without_drafts(load: Load, ends: Any) -> None:
    made: list[Circle] = []
    drafting, plain = eager(load(**EXACT)), load(**EXACT, speculate=False)
    log = Log(drafting)
    prompt = CIRCLE * 5
    results = [m.generate(prompt, max_tokens=80, sampler=ends(chain(made)).build(3))
               for m in (drafting, plain)]
    assert results[0].tokens == results[1].tokens and len(results[0].tokens) == 80
    for constraint, result in zip(made, results, strict=True):
        assert constraint.tokens == result.tokens, "all drafts were taken back"
    timings = results[0].timings
    assert timings.n_drafted >= timings.n_accepted > 0
    assert log.events.count("run") == 80 - timings.n_accepted
    assert made[0].n_rolled_back > 0 == made[1].n_rolled_back and made[1].n_masks == 80
    # Where a draft is right, the mask that was made for it is used for the token itself.
    assert 80 <= made[0].n_masks <= 80 + timings.n_drafted - timings.n_accepted
    check_idle(drafting)


def test_several_at_once(load: Load) -> None:
    """Each request has its own constraint; requests without one are drafted as usual."""
    made: list[Circle] = []
    model, plain = eager(load(**EXACT)), load(**EXACT, speculate=False)
    prompts = [CIRCLE * 5, [5, 6, *CIRCLE * 4], CIRCLE * 3]
    free = plain.generate(CIRCLE * 5, max_tokens=40, temperature=0.0)
    expected = [plain.generate(p, max_tokens=40, sampler=chain(made).dist(i))
                for i, p in enumerate(prompts)]
    streams = [model.stream(p, max_tokens=40, sampler=chain(made).dist(i))
               for i, p in enumerate(prompts)]
    assert model.generate(CIRCLE * 5, max_tokens=40, temperature=0.0).tokens == free.tokens
    for stream, wanted in zip(streams, expected, strict=True):
        list(stream)
        assert stream.result.tokens == wanted.tokens
    assert len({id(c) for c in made}) == 6
    check_idle(model)


@pytest.mark.parametrize(("fails", "n"), [("mask", 30), ("rollback", None)])
def test_a_constraint_that_fails_at_a_draft(load: Load, fails: str, n: int | None) -> None:
    """A mask that fails ends the request when its token is due, as without drafts. A constraint
    whose rollback fails ends its request. Others aren't affected."""
    made: list[Circle] = []
    model, plain = eager(load(**EXACT)), load(**EXACT, speculate=False)
    expected = plain.generate(CIRCLE * 5, max_tokens=60, temperature=0.0)
    other = model.stream(CIRCLE * 5, max_tokens=60, temperature=0.0)
    next(other)
    bad = model.stream(CIRCLE * 4, max_tokens=60, sampler=chain(made, fails).greedy())
    with pytest.raises(Trouble, match=fails):
        list(bad)
    assert made[0].n_rolled_back > 0
    if n is not None:
        assert len(made[0].tokens) == n
    list(other)
    assert other.result.tokens == expected.tokens
    check_idle(model)


def test_a_draft_ends_with_the_text(load: Load) -> None:
    """The constraint isn't asked for a mask after the token that ends a text."""
    class UntilEnd(Constraint):
        def mask(self, out: Any) -> None:
            assert CIRCLE[3] not in self.tokens
            row = np.zeros(N_VOCAB, bool)
            row[CIRCLE[len(self.tokens) % 5]] = True
            out[:] = mask_of(row)
    model = eager(load(**EXACT))
    model.tokenizer.eog_ids = frozenset({CIRCLE[3]})
    result = model.generate(CIRCLE * 5, max_tokens=9,
                            sampler=SamplerChain().constraint(UntilEnd).greedy())
    assert (result.tokens, result.stop_reason) == (CIRCLE[:3], "eos")
    assert result.timings.n_accepted > 0
    check_idle(model)


def test_one_sampler_for_several_prompts(load: Load) -> None:
    """A chain makes a constraint for each prompt; a built sampler has the constraint of one
    sequence."""
    made: list[Circle] = []
    model = load(**EXACT)
    results = model.generate([CIRCLE, CIRCLE], max_tokens=5, sampler=chain(made).greedy())
    assert [c.tokens for c in made] == [r.tokens for r in results]
    with pytest.raises(InvalidArgument, match="SamplerChain for several prompts"):
        model.generate([CIRCLE, CIRCLE], max_tokens=5, sampler=chain(made).greedy().build())
