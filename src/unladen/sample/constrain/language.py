"""Languages: the texts that an answer may be, as llguidance takes them.

A language may consist of others. ``Grammars`` names them all, and writes one definition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unladen.errors import InvalidArgument
from unladen.parameters.kinds import Text
from unladen.sample.constrain.expressions import Alternatives, Sequence_

if TYPE_CHECKING:
    from unladen.sample.constrain.base import Make
    from unladen.sample.constrain.expressions import Expression
    from unladen.sample.constrain.guide import Guide
    from unladen.sample.constrain.states import Spelled


class Language:
    """The texts that an answer may be."""

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """llguidance's grammar, without a name. ``grammars`` names the languages it is made of."""
        raise NotImplementedError

    def make(self, guide: Guide) -> Make:
        """Returns a new constraint for each sequence whose text is to be of this language. Raises
        :class:`InvalidArgument` where it can't be compiled."""
        return guide.compiled(self)

    @property
    def is_hurried(self) -> bool:
        """Whether a text that runs out of tokens is brought to its end in time, by tokens that the
        model might not have chosen. False: it breaks off."""
        return True

    def expression(self, spelled: Spelled) -> Expression | None:
        """The texts as an expression over characters; None where that isn't known. ``spelled``
        has the rules that the expression names."""
        return None

    def read(self, text: str) -> Any:
        """The value that ``text`` of this language stands for: by default the text. Raises
        :class:`ValueError` for a text that breaks off."""
        return text

    @property
    def ways_on(self) -> Sequence[str]:
        """Texts with which a part of this language that could go on for ever comes to its end."""
        return ()

    @property
    def must_be_whole(self) -> bool:
        """Whether a text that breaks off is of no use, as JSON is. Requests that have no room for
        a whole one are refused."""
        return False

    def blamed(self, message: str) -> InvalidArgument:
        """The error for what llguidance says about this language in ``message``."""
        return InvalidArgument(f"the answer's form can't be compiled: {message}")


class Grammars:
    """Names for languages: :attr:`parts`, the first of which is the whole. ``special_ids``: the
    texts of special tokens, which no other tokens can produce."""

    def __init__(self, whole: Language, special_ids: Mapping[str, int] | None = None) -> None:
        self._names: dict[int, str] = {}
        self._made: dict[str, Mapping[str, Any]] = {}
        self._special_ids = special_ids or {}
        self.parts: list[Language] = []  # kept, so that an id isn't given to another object
        self.name_of(whole)

    def name_of(self, language: Language) -> str:
        """What a Lark grammar writes for ``language``: a reference to its rules."""
        name = self._names.get(id(language))
        if name is None:
            name = f"part{len(self._names)}"
            self._names[id(language)] = name
            self.parts.append(language)
            self._made[name] = {}
            self._made[name] = language.define(self)
        return f"@{name}"

    def literal(self, text: str) -> str:
        """``text`` in a Lark grammar: literals, and the special tokens whose texts are in it."""
        return " ".join(f"<[{self._special_ids[piece]}]>" if piece in self._special_ids else
                        json.dumps(piece, ensure_ascii=False)
                        for piece in split(text, self._special_ids))

    def special_in(self, text: str) -> str | None:
        """The first special token in ``text``."""
        return next((piece for piece in split(text, self._special_ids)
                     if piece in self._special_ids), None)

    def until(self, rule: str, mark: str) -> str:
        """A Lark ``rule`` for any text up to and including the first ``mark``. What stands before a
        special token in the mark is a part of the text. The grammar has the lexeme :data:`TEXT`."""
        pieces = split(mark, self._special_ids)
        if begin := self.special_in(mark):
            at = pieces.index(begin)
            return f"{rule}: TEXT? {self.literal(''.join(pieces[at:]))}"
        return f"{rule}[lazy]: TEXT {json.dumps(mark, ensure_ascii=False)}"

    def text(self) -> str:
        """The definition for llguidance."""
        return json.dumps({"grammars": [{"name": name, **made}
                                        for name, made in self._made.items()]})


@dataclass(frozen=True)
class Lark(Language):
    """A grammar in llguidance's Lark syntax, which begins at the rule ``start``."""

    text: str

    def __post_init__(self) -> None:
        Text("a grammar in Lark syntax", filled=True).of("text", self.text)

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """The same."""
        return {"lark_grammar": self.text}

    def blamed(self, message: str) -> InvalidArgument:
        """Names the place in the grammar that ``message`` tells of."""
        return InvalidArgument(f"the Lark grammar can't be compiled: {message}",
                               hint="a grammar begins at the rule start")


@dataclass(frozen=True)
class Exactly(Language):
    """One text."""

    text: str

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """A rule with one literal."""
        return {"lark_grammar": f"start: {grammars.literal(self.text) or EMPTY}"}

    def expression(self, spelled: Spelled) -> Expression:
        """The characters and special tokens of the text."""
        return spelled.literal(self.text)


@dataclass(frozen=True, eq=False)
class Joined(Language):
    """Texts of several languages one after another."""

    parts: Sequence[Language]

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """A rule that names the parts."""
        return {"lark_grammar": "start: " + " ".join(
            grammars.name_of(part) for part in self.parts)}

    def expression(self, spelled: Spelled) -> Expression | None:
        """A sequence."""
        return spelled.several(Sequence_, self.parts)

    @property
    def must_be_whole(self) -> bool:
        """Whether any of the parts must."""
        return any(part.must_be_whole for part in self.parts)

    @property
    def is_hurried(self) -> bool:
        """Whether all of the parts are."""
        return all(part.is_hurried for part in self.parts)


@dataclass(frozen=True, eq=False)
class OneOf(Language):
    """A text of any of several languages."""

    parts: Sequence[Language]

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """A rule with alternatives."""
        if not self.parts:
            raise InvalidArgument("there must be at least one language to choose from")
        return {"lark_grammar": "start: " + " | ".join(
            grammars.name_of(part) for part in self.parts)}

    def expression(self, spelled: Spelled) -> Expression | None:
        """Alternatives."""
        return spelled.several(Alternatives, self.parts)

    @property
    def must_be_whole(self) -> bool:
        """Whether all of the parts must."""
        return all(part.must_be_whole for part in self.parts)

    @property
    def is_hurried(self) -> bool:
        """Whether all of the parts are."""
        return all(part.is_hurried for part in self.parts)


@dataclass(frozen=True, eq=False)
class After(Language):
    """Any text that ends with the first ``mark``, then a text of ``then``. The mark is a special
    token of the vocabulary, or else text, however that is cut into tokens."""

    mark: str
    then: Language

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """A lazy lexeme up to the mark."""
        return {"lark_grammar": f"start: head {grammars.name_of(self.then)}\n"
                                f"{grammars.until('head', self.mark)}\n{TEXT}"}

    def expression(self, spelled: Spelled) -> Expression | None:
        """Any characters up to the mark."""
        then = self.then.expression(spelled)
        return None if then is None else spelled.behind(self.mark, then)

    @property
    def ways_on(self) -> Sequence[str]:
        """The mark."""
        return (self.mark,)

    @property
    def must_be_whole(self) -> bool:
        """Whether what follows the mark must."""
        return self.then.must_be_whole

    @property
    def is_hurried(self) -> bool:
        """Whether what follows the mark is."""
        return self.then.is_hurried

    def read(self, text: str) -> Any:
        """The value of what follows the mark."""
        return self.then.read(text.partition(self.mark)[2])


class Anything(Language):
    """Any text."""

    def define(self, grammars: Grammars) -> Mapping[str, Any]:
        """One lexeme."""
        return {"lark_grammar": f"start: TEXT\n{TEXT}"}


TEXT = "TEXT: /(.|\\n)*/"
"""The lexeme of any text."""
EMPTY = '""'
"""The empty text in a Lark grammar."""


def split(text: str, names: Collection[str]) -> list[str]:
    """``text`` in pieces, where each of ``names`` in it is a piece of its own, the longest first.
    """
    found = sorted((name for name in names if name and name in text), key=len, reverse=True)
    if not found:
        return [text] if text else []
    pattern = "|".join(re.escape(name) for name in found)
    return [piece for piece in re.split(f"({pattern})", text) if piece]
