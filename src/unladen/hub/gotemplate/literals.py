"""Numbers, characters and texts as Go writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\(?:(?P<one>[abfnrtv\\'\"])|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-7]{3})"
    r"|u(?P<short>[0-9a-fA-F]{4})|U(?P<long>[0-9a-fA-F]{8})|(?P<bad>.|$))", re.DOTALL)
_ONE: Final[Mapping[str, str]] = MappingProxyType(
    {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\",
     "'": "'", '"': '"'})
_LONGEST: Final = 100
"""Characters of a number at most."""


def unquoted(literal: str) -> str:
    """The text that ``literal``, with its quotes, stands for. Raises :class:`ValueError`."""
    quote, inner = literal[0], literal[1:-1]
    if quote == "`":
        return inner.replace("\r", "")

    def plain(match: re.Match[str]) -> bytes:
        if match["one"]:
            if match["one"] in "'\"" and match["one"] != quote:
                raise ValueError(match[0])
            return _ONE[match["one"]].encode()
        if match["byte"] or match["octal"]:
            code = int(match["byte"], 16) if match["byte"] else int(match["octal"], 8)
            return bytes([code])  # raises ValueError above 255
        if match["short"] or match["long"]:
            return chr(int(match["short"] or match["long"], 16)).encode()
        raise ValueError(match[0])

    pieces, at = [], 0
    for match in _ESCAPE.finditer(inner):
        pieces += [inner[at:match.start()].encode(errors="surrogatepass"), plain(match)]
        at = match.end()
    pieces.append(inner[at:].encode(errors="surrogatepass"))
    return b"".join(pieces).decode(errors="replace")


def number(literal: str) -> int | float:
    """The value of a number or of a character in quotes. Raises :class:`ValueError`."""
    if literal.startswith("'"):
        text = unquoted(literal)
        if len(text) != 1:
            raise ValueError(literal)
        return ord(text)
    if len(literal) > _LONGEST or not literal.isascii():
        raise ValueError(literal)
    sign, digits = re.fullmatch(r"([+-]?)(.*)", literal).groups()  # type: ignore[union-attr]
    value: int | float
    if re.fullmatch(r"0[0-7_]*[0-7]", digits):
        value = int(digits, 8)
    elif re.fullmatch(r"0[xXoObB][0-9a-fA-F_]+|[0-9][0-9_]*", digits):
        value = int(digits, 0)
    elif re.fullmatch(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", digits):
        value = float(digits)
    else:
        raise ValueError(literal)
    if isinstance(value, int) and value >= 1 << 63:
        raise ValueError(literal)
    return -value if sign == "-" else value
