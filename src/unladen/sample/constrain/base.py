"""What a constraint is: the state of one sequence, asked for a mask before each token."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import reject

Mask: TypeAlias = npt.NDArray[np.uint32]
"""uint32 [ceil(n_vocab / 32)]: bit ``t % 32`` of word ``t // 32`` is set where token ``t`` may come
next. Bits beyond the vocabulary mean nothing."""


class Constrains(Protocol):
    """The methods of a constraint. Each object belongs to one sequence. What a method raises ends
    that sequence's request alone."""

    def mask(self, out: Mask) -> None:
        """Set the bits of the tokens that may come next in ``out``, where all are 0. The answer
        depends on the accepted tokens alone, and the call changes nothing else."""

    def accept(self, token: int) -> None:
        """``token`` comes next, also one that ends the text. The prompt's tokens are not among the
        accepted."""

    def rollback(self, n: int) -> None:
        """Take the last ``n`` >= 1 accepted tokens back: they were a guess."""


Make = Callable[[], Constrains]
"""Returns a new constraint for a new sequence."""


class Constraint:
    """Base of constraints: a subclass defines ``mask(out)`` of :class:`Constrains`, which may look
    at :attr:`tokens`. One that keeps more than the tokens overrides both :meth:`accept` and
    :meth:`rollback`.
    """

    tokens: list[int]
    """The accepted tokens, oldest first."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """A subclass's ``__init__`` needn't call one of this class, so there is none."""
        made = super().__new__(cls)
        made.tokens = []
        return made

    def accept(self, token: int) -> None:
        """Append ``token`` to :attr:`tokens`."""
        self.tokens.append(token)

    def rollback(self, n: int) -> None:
        """Drop the last ``n`` of :attr:`tokens`."""
        del self.tokens[-n:]


def mask_of(allowed: npt.NDArray[np.bool_]) -> Mask:
    """The mask uint32 [ceil(n_vocab / 32)] of bool [n_vocab] ``allowed``. Raises
    :class:`InvalidArgument`."""
    if not (isinstance(allowed, np.ndarray) and allowed.dtype == bool and allowed.ndim == 1):
        reject("allowed", "an array bool [n_vocab]", allowed)
    packed = np.packbits(np.pad(allowed, (0, -len(allowed) % 32)), bitorder="little")
    return packed.view("<u4").astype(np.uint32, copy=False)


def n_words(n_vocab: int) -> int:
    """Words of a mask for ``n_vocab`` tokens."""
    return -(-n_vocab // 32)


def check_constraint(made: object) -> None:
    """Raise :class:`InvalidArgument` unless ``made`` has the methods of :class:`Constrains`; the
    message names those that are missing."""
    if isinstance(made, type):
        raise InvalidArgument(f"a constraint is an object, got the class {made.__name__}",
                              hint=f"call it: constraint(lambda: {made.__name__}(...))")
    cls = type(made)
    missing = [f"{method}({', '.join(parameters)})" for method, parameters in _METHODS.items()
               if not callable(getattr(made, method, None))]
    if missing:
        raise InvalidArgument(
            f"a constraint needs the methods mask, accept and rollback; "
            f"{cls.__name__} lacks {', '.join(missing)}",
            hint="subclass unladen.sample.Constraint, which has the last two")
    inherited = [method for method in ("accept", "rollback")
                 if getattr(cls, method) is getattr(Constraint, method)]
    if isinstance(made, Constraint) and len(inherited) == 1:
        raise InvalidArgument(f"{cls.__name__} overrides only one of accept and rollback, not "
                              f"{inherited[0]}",
                              hint="rollback has to undo what accept does")


_METHODS = {method: [p for p in inspect.signature(getattr(Constrains, method)).parameters
                     if p != "self"] for method in ("mask", "accept", "rollback")}
