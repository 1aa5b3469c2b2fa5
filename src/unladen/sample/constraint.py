"""constraint: keep only the tokens that a grammar, or another constraint, allows next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import reject
from unladen.sample.base import Step
from unladen.sample.constrain import Constrains, Make, check_constraint
from unladen.sample.constrain.running import RunningConstraint


@dataclass(frozen=True)
class ConstraintStep(Step):
    """Keep the candidates that a constraint, such as a grammar, allows.

    ``make`` is called once for each sequence and returns its constraint, a new object with the
    methods of :class:`unladen.sample.Constrains`. Raises :class:`BadLogits` where no candidate is
    allowed.
    """

    name: ClassVar[str] = "constraint"
    opcode: ClassVar[str | None] = "constraint"
    make: Make
    _latest: list[Constrains] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not callable(self.make):
            reject("make", "a function that returns a new constraint for each sequence", self.make,
                   "constraint(lambda: ...), or the name of a class")

    def start(self, slot: int) -> RunningConstraint:
        """The step for a new sequence; ``slot`` is its number among the constraints of its chain.
        Raises :class:`InvalidArgument` where ``make`` doesn't return a new constraint. Exceptions
        of ``make`` pass through."""
        made = self.make()
        check_constraint(made)
        if any(made is earlier for earlier in self._latest):
            raise InvalidArgument(
                f"the constraint {type(made).__name__} belongs to another sequence already",
                hint="make returns a new object each time it is called")
        self._latest[:] = [made]
        return RunningConstraint(made, slot)
