"""Recognizes files that aren't GGUF by their first bytes, for the error that refuses them."""

from __future__ import annotations

from typing import Final, NamedTuple

HEAD_BYTES: Final = 512
"""Bytes at the beginning of a file that decide what it is."""
UNFINISHED: Final = (".part", ".partial", ".incomplete", ".crdownload", ".download", ".aria2",
                     ".tmp", ".!qb")
"""Suffixes that programs give to files that they are still downloading."""
STILL_LOADING: Final = ("its name says that the download isn't finished: wait for it, or start it "
                        "again")
"""Hint for a file with such a suffix."""

_CONVERT: Final = "get the model as GGUF, or convert it with llama.cpp's convert_hf_to_gguf.py"
"""Hint for a checkpoint of another program."""
_UNPACK: Final = "unpack it, and give the .gguf file that is in it"
"""Hint for an archive."""
_OLD: Final = "get the model as GGUF, or convert it again from the original"
"""Hint for a format before GGUF."""
_PAGE: Final = ("a download saved a page in place of the file: log in if the model is gated, and "
                "take the address with /resolve/")
"""Hint for a web page in place of a file."""
_AGAIN: Final = "fetch it again"
"""Hint for damaged or unknown bytes."""


class Other(NamedTuple):
    """``what`` a file is, in words, and ``hint``: what to try."""

    what: str
    hint: str


_MAGICS: Final = (
    (b"PK\x03\x04", "a ZIP archive, as PyTorch saves checkpoints", _CONVERT),
    (b"\x1f\x8b", "a gzip archive", _UNPACK),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", _UNPACK),
    (b"\xfd7zXZ\x00", "an xz archive", _UNPACK),
    (b"BZh", "a bzip2 archive", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (b"Rar!", "a RAR archive", _UNPACK),
    (b"lmgg", "a model in the old format GGML", _OLD),
    (b"fmgg", "a model in the old format GGMF", _OLD),
    (b"tjgg", "a model in the old format GGJT", _OLD),
    (b"algg", "an adapter in the old format GGLA", _OLD),
    (b"\x89HDF", "an HDF5 file, as Keras saves models", _CONVERT),
    (b"\x80\x02", "a pickle, as old PyTorch saves checkpoints", _CONVERT),
    (b"\x93NUMPY", "a NumPy array", _CONVERT),
    (b"version https://git-lfs", "a Git LFS pointer, not the file that it stands for",
     "run `git lfs pull` in its folder, or download the file itself"))


def what_is(head: bytes, size: int, path: str) -> Other:
    """What the file at ``path`` is: its first bytes are ``head``, its size is ``size`` bytes."""
    for magic, what, hint in _MAGICS:
        if head.startswith(magic):
            return Other(what, hint)
    if head[8:10] == b'{"' and int.from_bytes(head[:8], "little") < size:
        return Other("a safetensors file", _CONVERT)
    if head[257:262] == b"ustar":
        return Other("a tar archive", _UNPACK)
    if not any(head):
        return Other("a file that begins with zeros only",
                     STILL_LOADING if is_unfinished(path) else _AGAIN)
    if is_unfinished(path):
        return Other("not GGUF yet", STILL_LOADING)
    return _text(head) or Other(f"an unknown format: it begins with {head[:4]!r}", _AGAIN)


def is_unfinished(path: str) -> bool:
    """Whether ``path`` has the suffix of an unfinished download."""
    return path.lower().endswith(UNFINISHED)


def _text(head: bytes) -> Other | None:
    try:
        text = head.removeprefix(b"\xef\xbb\xbf").decode().lstrip()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # later errors may be a character cut off by HEAD_BYTES
            return None
        text = head[:error.start].decode().lstrip()
    if not text or any(c < " " and c not in "\t\r\n" for c in text):
        return None
    if text.lower().startswith(("<!doctype html", "<html", "<head", "<?xml")):
        return Other("an HTML page", _PAGE)
    line = text.splitlines()[0]
    shown = repr(line if len(line) <= 40 else line[:40] + "...")
    if text.startswith("{"):
        return Other(f"JSON: {shown}", "give the .gguf file; a server may also have sent an error "
                                       "in its place")
    return Other(f"a text: {shown}", _PAGE)
