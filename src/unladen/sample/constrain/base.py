"""The protocol of constraints: objects for one sequence that give a mask before each token."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import reject

Mask: TypeAlias = npt.NDArray[np.uint32]
"""uint32 [ceil(n_vocab / 32)]: bit ``t % 32`` of word ``t // 32`` is set where token ``t`` may come
next. Bits beyond the vocabulary are ignored."""


class Constrains(Protocol):
    """The methods of a constraint. Each object belongs to one sequence. An exception that a method
    raises ends only that sequence's request."""

    def mask(self, out: Mask) -> None:
        """Set the bits of the tokens that may come next in ``out``, which is all 0. The bits must
        depend only on the accepted tokens, and the call must not change the constraint."""

    def accept(self, token: int) -> None:
        """Take note that ``token`` comes next. Called for every generated token, also one that ends
        the text, and for no token of the prompt."""

    def rollback(self, n: int) -> None:
        """Undo :meth:`accept` for the last ``n`` >= 1 tokens, which were guesses."""


class Foresees(Constrains, Protocol):
    """A constraint that also knows what comes next. Its masks are made in another thread while a
    device computes, so they must not need the GIL for long."""

    @property
    def ends(self) -> Collection[int]:
        """The tokens that end the text: they may be forced also where a bias bans them."""

    def forced(self) -> Sequence[int]:
        """The tokens that come next in any case, the first one at least where only one text can
        follow; a token that ends the text is the last of them. [] where several may come. Depends
        on the accepted tokens alone."""

    def n_valid(self, tokens: Sequence[int]) -> int:
        """How many of ``tokens`` from the first one on are allowed one after another."""

    @property
    def must_be_whole(self) -> bool:
        """Whether a text that breaks off is of no use."""

    def way_in(self, n_most: int) -> Sequence[int] | None:
        """As :meth:`way_out`, before the first token, and as short as possible where it has more
        than ``n_most`` tokens."""

    def way_out(self, n_most: int, first: int | None = None, known: Sequence[int] = (),
                banned: frozenset[int] = frozenset()) -> Sequence[int] | None:
        """At most ``n_most`` tokens that end the text; the last of them is the end. [] where it has
        ended or may end anywhere, None where no way is known or where it breaks off. Depends on the
        accepted tokens and on the arguments alone.

        * ``first``: the way begins after this token; None: at once.
        * ``known``: a way from before ``first``, which may help to find one quickly.
        * ``banned``: tokens that must not be on the way, unless they end the text.
        """

    def instead_of_end(self) -> Sequence[int]:
        """The tokens to write where a token is chosen that ends the text, although the text can't
        end here: they end the part of it that the model wants to end. () where there are none."""


def foresees(constraint: Constrains) -> Foresees | None:
    """``constraint``, if it has the methods of :class:`Foresees`."""
    return constraint if all(  # type: ignore[return-value]
        hasattr(constraint, name) for name in _FORESEES) else None


_FORESEES = ("ends", "forced", "instead_of_end", "must_be_whole", "n_valid", "way_in", "way_out")
"""What a constraint has that knows what comes next."""


Make = Callable[[], Constrains]
"""A function that returns a new constraint for each new sequence."""


class Constraint:
    """Base class of constraints. A subclass defines ``mask(out)`` of :class:`Constrains`, which may
    read :attr:`tokens`. A subclass with more state than the tokens overrides both :meth:`accept`
    and :meth:`rollback`.
    """

    tokens: list[int]
    """The accepted tokens, oldest first."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Set :attr:`tokens` here, so that a subclass's ``__init__`` needn't call another one."""
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
    """The mask, uint32 [ceil(n_vocab / 32)], of ``allowed`` bool [n_vocab]. Raises
    :class:`InvalidArgument`."""
    if not (isinstance(allowed, np.ndarray) and allowed.dtype == bool and allowed.ndim == 1):
        reject("allowed", "an array bool [n_vocab]", allowed)
    packed = np.packbits(np.pad(allowed, (0, -len(allowed) % 32)), bitorder="little")
    return packed.view("<u4").astype(np.uint32, copy=False)


def n_words(n_vocab: int) -> int:
    """The number of words in a mask for ``n_vocab`` tokens."""
    return -(-n_vocab // 32)


def check_constraint(made: object) -> None:
    """Raise :class:`InvalidArgument` unless ``made`` has the methods of :class:`Constrains`; the
    message names those that are missing."""
    if isinstance(made, type):
        raise InvalidArgument(f"a constraint must be an object, got the class {made.__name__}",
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
"""The parameters of each method that a constraint must have."""
