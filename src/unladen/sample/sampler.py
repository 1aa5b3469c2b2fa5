"""Runs a chain for one sequence: takes logits, gives a token."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from unladen._native import sample as native
from unladen.errors import ConstraintFailed, InvalidArgument
from unladen.parameters.kinds import Instance, Items, flag, token_ids
from unladen.sample.base import (
    BadLogits,
    Candidates,
    Ids,
    Logits,
    Step,
    check_candidates,
    token_id,
)
from unladen.sample.constrain.running import RunningConstraint
from unladen.sample.constraint import ConstraintStep
from unladen.sample.dist import seed_of
from unladen.sample.logit_bias import LogitBias
from unladen.sample.state import PythonState

MAX_ID = 2**31 - 1
"""The largest token id, where the size of the vocabulary isn't given."""
_STEPS = Items(Instance(lambda value: isinstance(value, Step),
                        "an object of a subclass of unladen.sample.Step"), "a list of steps")
"""Checks the steps of a chain."""


class Sampler:
    """A chain with the state of one sequence: its generator and the tokens accepted so far.

    ``steps`` end with one that chooses; make them with :class:`SamplerChain`. ``seed`` None takes
    fresh entropy. ``use_native`` False runs every step by its NumPy definition, which gives the
    same tokens and is slow.

    * :attr:`n_best`: how many of the best candidates decide the token (see :meth:`sample_best`);
      None if all do.
    * :attr:`is_greedy`: the best candidate is the token.
    * :attr:`is_native`: no step and no constraint runs in Python.
    * :attr:`is_constrained`: the chain has a constraint.

    Raises :class:`InvalidArgument`, also where a constraint lacks a method. Exceptions of the
    functions that make constraints pass through.
    """

    def __init__(self, steps: Sequence[Step], seed: int | None = None, *,
                 use_native: bool = True) -> None:
        steps = _STEPS.of("steps", steps)
        if not steps or not steps[-1].chooses or any(step.chooses for step in steps[:-1]):
            raise InvalidArgument("a chain must have exactly one choosing step, at its end",
                                  hint="end it with greedy or dist")
        self.steps = tuple(steps)
        chosen, use_native = seed_of(seed), flag("use_native", use_native)
        # 53 bits, since numbers in JSON are doubles and a larger seed would be rounded.
        self.seed = int.from_bytes(os.urandom(7)) >> 3 if chosen is None else chosen
        self._state = native.State(self.seed) if use_native else PythonState(self.seed)
        self._state.memory = {}
        self._constraints: list[RunningConstraint] = []
        steps = [self._started(step) for step in self.steps]
        self._parts = _compile(steps) if use_native else steps
        first = self._parts[0]
        self._whole: tuple[native.Chain, native.State] | None = None  # all of it in one call
        if len(self._parts) == 1 and isinstance(first, native.Chain):
            assert isinstance(self._state, native.State)
            self._whole = first, self._state
        self._fast = None if self._constraints else self._whole
        self.is_native = self._fast is not None
        self.is_constrained = bool(self._constraints)
        first_change = next((s for s in self.steps if s.n_best != 0), self.steps[-1])
        # Only pick(), which has all logits, asks constraints what comes next.
        self.n_best = None if self.is_constrained else first_change.n_best
        self.is_greedy = first_change.chooses and self.n_best == 1
        #: Whether :meth:`look_ahead` does anything.
        self.looks_ahead = any(constraint.works_ahead for constraint in self._constraints)
        banned = frozenset(token for step in self.steps if isinstance(step, LogitBias)
                           for token, amount in step.bias if amount == -math.inf)
        self._is_forcible = len(self._constraints) == 1 and all(
            step.opcode is not None for step in self.steps)
        for constraint in self._constraints:
            constraint.banned, constraint.is_forcible = banned, self._is_forcible

    def _started(self, step: Step) -> Step:
        if not isinstance(step, ConstraintStep):
            return step
        self._constraints.append(step.start(len(self._constraints)))
        return self._constraints[-1]

    def sample(self, logits: Logits) -> int:
        """Pick a token from float32 [n_vocab] ``logits``, which stay as they are, and accept it.

        Raises :class:`BadLogits` for NaN, +inf or nothing but -inf, and :class:`InvalidArgument`
        where the caller's own step leaves invalid candidates or chooses no id of the vocabulary.
        Exceptions of a constraint pass through. After an exception the history is as before.
        """
        if self._fast is not None:
            chain, state = self._fast
            try:
                return chain.pick(logits, state, True)
            except TypeError:
                _reject(logits, 1)
        token = self.pick(logits)
        self._accept(token)
        return token

    def pick(self, logits: Logits) -> int:
        """Pick a token without accepting it. A draw still advances the generator. Raises as
        :meth:`sample` does. A token that :meth:`forced` names is picked without a draw. Raises
        :class:`ConstraintFailed` where a bias bans all that a constraint allows."""
        _check(logits, 1)
        forced = self.forced()
        if forced is not None:
            return forced
        masks = [constraint.ask(len(logits)) for constraint in self._constraints]
        try:
            if self._whole is not None:
                chain, state = self._whole
                token = chain.pick(logits, state, False, masks)
            else:
                token = self._choose(logits, None, len(logits))
        except BadLogits:
            self._refuse_bans(len(logits))
            raise
        return self._constraints[0].chosen(token) if self._is_forcible else token

    def sample_best(self, ids: Ids, logits: Logits, n_vocab: int = MAX_ID + 1) -> int:
        """As :meth:`sample`, from the best candidates alone. Gives the same token as from all
        logits, with the same draws.

        * ``ids`` int32 [n], ``logits`` float32 [n]: at least :attr:`n_best` of the best, by falling
          logit, the lower id first in a tie.
        * ``n_vocab``: tokens of the vocabulary.
        """
        if np.isnan(logits).any() or np.isposinf(logits).any():
            raise BadLogits("the logits hold NaN or +inf")
        n = min(self.n_best or 0, np.count_nonzero(logits > -np.inf))
        if n == 0:
            raise BadLogits("no candidate has a finite logit")
        order = np.argsort(ids[:n])
        token = self._choose(logits, Candidates(ids[:n][order], logits[:n][order]), n_vocab)
        self._accept(token)
        return token

    def forced(self) -> int | None:
        """The next token, whatever the logits are and whatever finite bias it has: the only one
        that a constraint lets pass, if it knows that. None where several may come, where a bias
        bans that token (but a token that ends the text), and for chains with several constraints or
        with steps of the caller's."""
        return self._constraints[0].forced() if self._is_forcible else None

    def _refuse_bans(self, n_vocab: int) -> None:
        """Raise :class:`ConstraintFailed` where a bias bans all tokens that a constraint allows."""
        for constraint in self._constraints:
            bits = np.unpackbits(constraint.mask.view(np.uint8), bitorder="little")
            allowed = np.flatnonzero(bits[:n_vocab]).tolist()
            if allowed and constraint.banned.issuperset(allowed):
                names = ", ".join(map(str, allowed[:5])) + (", ..." if allowed[5:] else "")
                raise ConstraintFailed(
                    f"logit_bias bans every token that the answer's form allows here: {names}",
                    hint="leave these tokens out of logit_bias, or give them a finite bias")

    def begin(self, n_left: int) -> int | None:
        """At most ``n_left`` tokens may come in all. Called before the first one, by callers that
        call :meth:`hurry` after each. Returns how many tokens the shortest text takes that the
        constraint allows and that was found, if it takes more and must be whole; else None."""
        return self._constraints[0].begin(n_left) if self._is_forcible else None

    def hurry(self, n_left: int) -> bool:
        """At most ``n_left`` tokens may come: choose them so that the text comes to an end that its
        constraint allows, if that is known. Called after each token. Returns whether the text will
        end because of that."""
        if not self._is_forcible:
            return False
        self._constraints[0].hurry(n_left)
        return self._constraints[0].is_cut

    def look_ahead(self, draft: Sequence[int], n_vocab: int) -> None:
        """Make the masks for the next token and for those after each token of ``draft``, which are
        allowed, where that may be done in another thread; none where the next token is
        :meth:`forced`. Nothing else of the sampler may be used meanwhile. Exceptions of a
        constraint's ``forced`` and ``rollback`` pass through."""
        if self.forced() is not None:
            return
        for constraint in self._constraints:
            if constraint.works_ahead:
                constraint.look_ahead(draft, n_vocab)

    def n_allowed(self, draft: Sequence[int], n_vocab: int) -> int:
        """How many tokens of ``draft``, from the first one on, the constraints allow one after
        another; all of them if there is no constraint. ``n_vocab``: tokens of the vocabulary.
        Nothing is accepted. Exceptions of a constraint's ``rollback`` pass through."""
        n = len(draft)
        for constraint in self._constraints:
            n = constraint.n_allowed(draft[:n], n_vocab)
        return n

    def _choose(self, logits: Logits, candidates: Candidates | None, n_vocab: int) -> int:
        """Run the parts and return the token that the last one chose."""
        for part in self._parts:
            if isinstance(part, Step):
                candidates = Candidates.of(logits) if candidates is None else candidates
                if not len(candidates.ids):
                    raise BadLogits("no candidate has a finite logit")
                part.apply(candidates, self._state)
                # Steps with an opcode belong to the package; only a caller's can be wrong.
                if part.opcode is None and not part.chooses:
                    check_candidates(candidates, n_vocab, part.name)
            else:
                candidates = self._run(part, logits, candidates)
        if candidates is None or candidates.chosen is None:
            raise InvalidArgument(f"step {self.steps[-1].name!r} chose no token",
                                  hint="a step with chooses=True sets Candidates.chosen")
        return token_id(candidates.chosen, n_vocab, f"step {self.steps[-1].name!r}")

    def accept(self, token: int) -> None:
        """Append ``token`` to the history that penalties read, and let the constraints accept
        it."""
        self._accept(token_id(token, MAX_ID + 1, "the caller"))

    def accept_prompt(self, ids: Sequence[int] | Ids) -> None:
        """Append a prompt's token ids to the history that penalties read. Constraints don't see
        them."""
        self._state.accept_all(np.array(token_ids("ids", ids), np.int32))

    def explain(self) -> str:
        """:func:`explain` of the steps, and the seed."""
        return f"{explain(self.steps, isinstance(self._state, native.State))}\nseed {self.seed}"

    def __repr__(self) -> str:
        return f"Sampler({' -> '.join(step.name for step in self.steps)}, seed={self.seed})"

    def _accept(self, token: int) -> None:
        for constraint in self._constraints:
            constraint.accept(token)
        self._state.accept(token)

    def _run(self, chain: native.Chain, logits: Logits, before: Candidates | None) -> Candidates:
        assert isinstance(self._state, native.State)
        values, ids = (logits, None) if before is None else (before.logits, before.ids)
        masks = [constraint.mask for constraint in self._constraints]
        chosen, out_ids, out_logits = chain.run(values, ids, self._state, masks)
        return Candidates(out_ids, out_logits, None if chosen < 0 else chosen)


def explain(steps: Sequence[Step], use_native: bool = True) -> str:
    """One line for each step: its parameters and whether it runs natively or in NumPy."""
    return "\n".join(f"{i}. {step!r}: {'native' if use_native and step.opcode else 'NumPy'}"
                     for i, step in enumerate(steps, 1))


def sample_rows(logits: Logits, samplers: Sequence[Sampler]) -> list[int]:
    """:meth:`Sampler.sample` for float32 [n_rows, n_vocab], one sampler a row, in one native call.

    If some rows have bad logits, one :class:`BadLogits` is raised after the others are done. Its
    ``rows`` are the rows with bad logits, its ``tokens`` the tokens of the others.
    """
    _check(logits, 2)
    if len(samplers) != len(logits):
        raise InvalidArgument("logits must have a row for each sampler, got "
                              f"{len(logits)} rows for {len(samplers)} samplers")
    fast = [sampler._fast for sampler in samplers if sampler._fast is not None]
    if len(fast) == len(samplers):
        tokens, reason = native.sample_rows(logits, [chain for chain, _ in fast],
                                            [state for _, state in fast])
    else:
        tokens, reason = _one_by_one(logits, samplers)
    if reason:
        bad = tuple(row for row, token in enumerate(tokens) if token < 0)
        raise BadLogits(f"{reason} (rows {', '.join(map(str, bad))})", rows=bad,
                        tokens=tuple(tokens))
    return tokens


def logprobs(logits: Logits, token: int, n_top: int = 0
             ) -> tuple[float, list[tuple[int, float]]]:
    """The natural logarithm of softmax(``logits``) for ``token`` and for the best tokens.

    ``logits``: float32 [n_vocab]. Returns the token's logprob, and (id, logprob) for each of the
    ``n_top`` most likely tokens, best first, the lower id first in a tie, without those at -inf.
    The absolute error is below 3e-6, the bound of :func:`unladen.sample.base.weights`, plus
    n_vocab * 2**-41. Raises :class:`BadLogits` and :class:`InvalidArgument`.
    """
    _check(logits, 1)
    if not 0 <= token < len(logits) or n_top < 0:
        raise InvalidArgument(f"token must be from 0 to {len(logits) - 1} and n_top at least 0, "
                              f"got token {token} and n_top {n_top}")
    return native.logprobs(logits, token, n_top)


def _compile(steps: Sequence[Step]) -> tuple[native.Chain | Step, ...]:
    """``steps`` with consecutive native steps joined to one native chain."""
    known = native.opcodes()
    parts: list[native.Chain | Step] = []
    for is_native, stretch in itertools.groupby(steps, lambda step: step.opcode is not None):
        if not is_native:
            parts += stretch
            continue
        ops = [(step.opcode or "", [float(x) for x in step.packed()]) for step in stretch]
        if unknown := [opcode for opcode, _ in ops if opcode not in known]:
            raise InvalidArgument(f"no native step is called {unknown[0]!r}",
                                  hint="set opcode to None to run the NumPy definition")
        parts.append(native.Chain(ops))
    return tuple(parts)


def _one_by_one(logits: Logits, samplers: Sequence[Sampler]) -> tuple[list[int], str]:
    tokens, reason = [], ""
    for row, sampler in zip(logits, samplers, strict=True):
        try:
            tokens.append(sampler.sample(row))
        except BadLogits as error:
            tokens.append(-1)
            reason = reason or error.message
    return tokens, reason


def _check(logits: npt.NDArray[np.generic], n_dims: int) -> None:
    if not (isinstance(logits, np.ndarray) and logits.dtype == np.float32
            and logits.ndim == n_dims and logits.flags.c_contiguous):
        _reject(logits, n_dims)


def _reject(logits: object, n_dims: int) -> NoReturn:
    shape = "[n_vocab]" if n_dims == 1 else "[n_rows, n_vocab]"
    got = (f"{logits.dtype} {list(logits.shape)}" if isinstance(logits, np.ndarray)
           else type(logits).__name__)
    raise InvalidArgument(f"logits must be a contiguous float32 {shape} array, got {got}",
                          hint="np.ascontiguousarray(logits, dtype=np.float32)")
