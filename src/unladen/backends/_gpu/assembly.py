"""Assembles kernel texts of any language from files, by the lines that all languages share.

A text may have these lines, besides those of its language:

* ``#use NAME ...`` inserts files of ``parts/``, each once; the name ``quant`` inserts the file of
  the weights' format;
* ``#if NAME`` ... ``#else`` ... ``#end`` keep lines if the constant NAME is given and neither false
  nor 0;
* lines of the language's own, for which :attr:`Assembly.directives` has functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from unladen.backends._gpu.target import Constants
from unladen.discover import plugin_folders

Line = tuple[Path, int, str]
"""A line of a file: the file, the line's number from 1 on, and its text."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The kernel texts of one language.

    * ``folder``: the package's texts.
    * ``suffix``: how the names of its files end.
    * ``plugins``: the name of the folder with such texts in a plug-in folder.
    """

    folder: Path
    suffix: str
    plugins: str

    def file(self, name: str) -> Path:
        """The path of the text ``name``, in the package or else in a plug-in folder. The file may
        not exist."""
        own = self.folder / f"{name}{self.suffix}"
        strangers = (folder / f"{name}{self.suffix}" for folder in plugin_folders(self.plugins))
        return own if own.exists() else next((path for path in strangers if path.exists()), own)

    def quant_file(self, quant: str) -> Path:
        """The path of the text for block format ``quant``."""
        return self.file(f"quants/{quant.lower()}")


@dataclass(slots=True)
class Assembly:
    """Expands the files of one text. ``directives``: for the first word of a line, a function that
    takes the rest of the line and returns what to insert."""

    shelf: Shelf
    quant: str
    constants: Constants
    directives: Mapping[str, Callable[[str], Iterator[str]]]
    used: set[str] = field(default_factory=set)

    def expand(self, path: Path) -> Iterator[Line]:
        """The lines of ``path``, with those of the files that it uses before them."""
        kept = [True]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            word, _, rest = line.partition(" ")
            if word == "#if":
                kept.append(kept[-1] and bool(self.constants.get(rest)))
            elif word == "#else":
                kept[-1] = kept[-2] and not kept[-1]
            elif word == "#end":
                kept.pop()
            elif not kept[-1]:
                continue
            elif word == "#use":
                for name in rest.split():
                    yield from self._part(name)
            elif word in self.directives:
                yield from ((path, number, made) for made in self.directives[word](rest))
            else:
                yield path, number, line

    def _part(self, name: str) -> Iterator[Line]:
        if name not in self.used:
            self.used.add(name)
            yield from self.expand(self.shelf.quant_file(self.quant) if name == "quant"
                                   else self.shelf.file(f"parts/{name}"))
