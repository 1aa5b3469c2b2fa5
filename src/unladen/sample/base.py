"""The base class of the steps of a sampler chain, and the arithmetic that all steps share.

A chain narrows and reweighs *candidates* until one step chooses a token. Each step is written
twice: ``apply`` in NumPy is the definition; a native twin (``csrc/``, same name) is what usually
runs. Both give the same token bit for bit on every machine, because

* candidates always stand in the order of their ids,
* everything before a choice is float32 arithmetic, one rounding per operation, and
* probabilities are integers (:func:`weights`), whose sums don't depend on their order.
"""

from __future__ import annotations

import dataclasses
import math
import operator
import reprlib
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument, UnladenError
from unladen.parameters.kinds import INT32_MAX, Real, Whole

Ids = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]
Weights = npt.NDArray[np.uint64]

WEIGHT_BITS = 40
"""The most likely candidate weighs 2 to this power. One that is 2**41 times less likely weighs
0."""


class BadLogits(UnladenError):
    """Logits from which no token can be chosen: with NaN or +inf, or all -inf.

    After a call for many rows, ``rows`` are the rows with such logits, and ``tokens`` has the token
    of each other row and -1 for these. After a call for one row both are empty.
    """

    def __init__(self, message: str, *, rows: tuple[int, ...] = (),
                 tokens: tuple[int, ...] = ()) -> None:
        super().__init__(message, hint="the model's file or a kernel is faulty, or a step of the "
                                       "chain left no candidate")
        self.rows = rows
        self.tokens = tokens


class State(Protocol):
    """The state that a chain keeps for one sequence between two tokens."""

    memory: dict[str, object]
    """Values that steps keep for the next token, each under the step's name."""

    def recent(self, n: int) -> Ids:
        """int32 [<= n]: the last ``n`` accepted tokens, oldest first; -1 means all of them."""

    def random(self) -> int:
        """The next 64 random bits as an unsigned number."""


@dataclasses.dataclass
class Candidates:
    """The tokens that may still be chosen.

    ``ids`` int32 [n] ascending, ``logits`` float32 [n] finite. Both belong to the chain, and steps
    may change them in place. ``chosen``: the token, once a step has chosen it.
    """

    ids: Ids
    logits: Logits
    chosen: int | None = None

    @classmethod
    def of(cls, logits: Logits) -> Candidates:
        """All tokens of ``logits`` float32 [n_vocab] except those at -inf. Raises
        :class:`BadLogits`."""
        if np.isnan(logits).any() or np.isposinf(logits).any():
            raise BadLogits("the logits hold NaN or +inf")
        ids = np.flatnonzero(logits > -np.inf).astype(np.int32)
        return cls(ids, logits[ids])

    def keep(self, which: npt.NDArray[np.bool_]) -> None:
        """Drop the candidates where bool [n] ``which`` is false."""
        self.ids = self.ids[which]
        self.logits = self.logits[which]

    def ranks(self) -> npt.NDArray[np.int64]:
        """Each candidate's place by falling logit, the lower id first in a tie: int64 [n]."""
        ranks = np.empty(len(self.ids), dtype=np.int64)
        ranks[np.argsort(-self.logits, kind="stable")] = np.arange(len(self.ids))
        return ranks


class Step:
    """One step of a chain: a frozen dataclass whose fields are its parameters.

    ``name`` is what users call it. ``opcode`` names the native twin, None where there is none:
    the chain then runs ``apply`` between its native parts. ``chooses`` marks a step that sets
    ``Candidates.chosen``; it ends a chain.
    """

    name: ClassVar[str]
    opcode: ClassVar[str | None] = None
    chooses: ClassVar[bool] = False

    @property
    def n_best(self) -> int | None:
        """How many of the best candidates the step reads, by falling logit, the lower id first in a
        tie; it drops the others. 0: it changes nothing. None: it reads all."""
        return None

    def apply(self, candidates: Candidates, state: State) -> None:
        """Change ``candidates``, which has at least one, in place."""
        raise NotImplementedError

    def packed(self) -> tuple[float, ...]:
        """The parameters as the native twin takes them."""
        raise NotImplementedError


def weights(logits: Logits) -> Weights:
    """Weights uint64 [n] proportional to the softmax of float32 [n]: round(2**40 * exp(logit -
    max)).

    Relative error below 2e-6 plus 2**-41 of the largest weight: half an ulp of a difference up
    to 32 (2**-20), then under eight roundings. exp is 2**n * e**r with |r| <= ln(2)/2 and the
    Taylor series to r**7, whose remainder is below 6e-9. Raises :class:`BadLogits`.
    """
    if not np.isfinite(logits.max(initial=-np.inf)):
        raise BadLogits("no candidate has a finite logit")
    f32 = np.float32
    x = np.maximum(logits - logits.max(), f32(-32))
    n = np.rint(x * f32(1.44269504))
    r = (x - n * f32(0.693359375)) - n * f32(-2.12194440e-4)  # ln 2 in two parts
    y = np.full_like(r, 1 / math.factorial(7))
    for k in range(6, -1, -1):
        y = y * r + f32(1 / math.factorial(k))
    scale = ((n.astype(np.int32) + 127) << 23).view(np.float32)
    weight: Weights = np.rint((y * scale).astype(np.float64) * 2.0**WEIGHT_BITS).astype(np.uint64)
    return weight


def ordered_sum(values: npt.NDArray[np.float64]) -> float:
    """The sum of float64 [n] in a fixed order: 32 interleaved running sums, then their sum."""
    padded = np.zeros(-(-len(values) // 32) * 32)
    padded[:len(values)] = values
    total = 0.0
    for lane in np.add.accumulate(padded.reshape(-1, 32), axis=0)[-1].tolist():
        total += lane
    return total


def below_max(logits: Logits) -> npt.NDArray[np.float64]:
    """How far each of ``logits`` float32 [n] is below the largest: float64 [n]."""
    return float(logits.max()) - logits.astype(np.float64)


def log_total(weight: Weights) -> float:
    """ln of the sum of exp(logit - max), from :func:`weights`."""
    return math.log(float(weight.sum())) - WEIGHT_BITS * math.log(2)


def draw(weight: Weights, state: State) -> int:
    """Draw an index with a probability proportional to ``weight`` uint64 [n], by one random number.

    The random number u becomes the point u * total / 2**64 (D. Lemire, "Fast random integer
    generation in an interval", 2019). Probabilities are off by less than 2**-64.
    """
    cumulative = np.cumsum(weight, dtype=np.uint64)
    point = state.random() * int(cumulative[-1]) >> 64
    return int(np.searchsorted(cumulative, np.uint64(point), side="right"))


def token_id(token: object, n_vocab: int, by: str) -> int:
    """``token`` as a plain int. Raises :class:`InvalidArgument`, which names the chooser ``by``,
    unless the token is a whole number from 0 to ``n_vocab`` - 1."""
    if type(token) is int and 0 <= token < n_vocab:
        return token
    if not isinstance(token, bool | np.bool_):
        try:
            index = operator.index(token)  # type: ignore[arg-type]  # operator.index decides
        except TypeError:
            index = -1
        if 0 <= index < n_vocab:
            return index
    raise InvalidArgument(f"{by} chose {reprlib.repr(token)}, which is no token id",
                          hint=f"token ids are whole numbers from 0 to {n_vocab - 1}")


def check_candidates(candidates: Candidates, n_vocab: int, by: str) -> None:
    """Check that ``candidates``, which the step called ``by`` has changed, are as
    :class:`Candidates` describes them, and drop those at -inf. Raises :class:`InvalidArgument`."""
    ids, logits = candidates.ids, candidates.logits
    for name, array, dtype in (("ids", ids, np.int32), ("logits", logits, np.float32)):
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.ndim != 1:
            got = (f"{array.dtype} {list(array.shape)}" if isinstance(array, np.ndarray)
                   else type(array).__name__)
            raise InvalidArgument(f"step {by!r} left {name} that are {got}",
                                  hint="candidates have int32 [n] ids and float32 [n] logits")
    if len(ids) != len(logits):
        raise InvalidArgument(f"step {by!r} left {len(ids)} ids and {len(logits)} logits",
                              hint="drop candidates with Candidates.keep, which changes both")
    if np.isnan(logits).any():
        raise InvalidArgument(f"step {by!r} left a logit that is NaN",
                              hint="use -inf to rule a token out")
    if len(ids) and not (ids[0] >= 0 and ids[-1] < n_vocab and (ids[1:] > ids[:-1]).all()):
        raise InvalidArgument(f"step {by!r} left ids that aren't ascending token ids",
                              hint=f"keep ids from 0 to {n_vocab - 1}, each at most once, in order")
    candidates.keep(logits > -np.inf)


def number(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Raise :class:`InvalidArgument` unless ``value`` is finite and in [low, high]."""
    Real(low, high).of(name, value)


def whole(name: str, value: int, low: int, high: int = INT32_MAX) -> None:
    """Raise :class:`InvalidArgument` unless ``value`` is an integer in [low, high]."""
    Whole(low, high).of(name, value)
