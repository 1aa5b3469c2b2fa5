"""Converts the tensors of a plan and writes the file, whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from unladen._native import cpu as native
from unladen.backends.cpu.features import isa_level
from unladen.errors import DiskFull, InvalidArgument, UnladenError
from unladen.quantizing.plan import QuantizePlan, Row
from unladen.quants import get

_MOST_COLUMNS = 1 << 28
"""Longer rows are refused: each thread holds at least one whole row as float32, 1 GiB here."""

Progress = Callable[[str, int, int], None]
"""A function that is called with a tensor's name, the bytes written so far and the bytes in all."""


_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags to open the target with: child processes don't inherit it, and Windows doesn't translate
line ends."""


def write_plan(plan: QuantizePlan, target: Path, *, n_threads: int,
               progress: Progress | None = None) -> None:
    """Write the file of ``plan`` to ``target``. A file there is replaced once the new one is
    complete.

    Raises :class:`DiskFull` before anything is written where the disk has too little room, or later
    where other programs have filled it; :class:`InvalidArgument` for weights that a format can't
    hold.
    """
    _check_room(plan, target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    level = isa_level()
    try:
        file = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | _FLAGS, 0o666)
        try:
            os.ftruncate(file, plan.nbytes)
            _write_all(file, plan.header.encoded, 0)
            for row, offset in zip(plan.rows, plan.header.offsets, strict=True):
                if row.changes:
                    _convert(file, offset, row, level, n_threads)
                else:
                    _write_all(file, row.source.data.data, offset)
                if progress is not None:
                    progress(row.source.name, offset + row.entry.nbytes, plan.nbytes)
        finally:
            os.close(file)
        temporary.replace(target)
    except UnladenError:
        raise
    except OSError as error:
        raise _failure(error, target) from error
    finally:
        temporary.unlink(missing_ok=True)


def _check_room(plan: QuantizePlan, target: Path) -> None:
    try:
        free = shutil.disk_usage(target.parent).free
    except OSError as error:
        raise _failure(error, target) from error
    if plan.nbytes > free:
        raise DiskFull(f"{target} needs {plan.nbytes} bytes, {free} are free",
                       hint="make room, or write to another disk")


def _failure(error: OSError, target: Path) -> UnladenError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"the disk ran full while {target} was written",
                        hint="make room, or write to another disk")
    return InvalidArgument(f"{target} can't be written: {error.strerror or error}",
                           hint="check the folder and its permissions, and that no other program "
                                "has the file open")


def _write_all(file: int, data: bytes | memoryview, offset: int) -> None:
    view = memoryview(data)
    os.lseek(file, offset, os.SEEK_SET)  # not all systems have pwrite
    while view:
        view = view[os.write(file, view[:1 << 26]):]


def _convert(file: int, offset: int, row: Row, level: str, n_threads: int) -> None:
    shape = row.source.shape
    n_cols, n_rows = shape[-1], row.source.n_elements // shape[-1]
    if n_cols > _MOST_COLUMNS:
        raise InvalidArgument(f"{row.source.name} has rows of {n_cols}, more than {_MOST_COLUMNS}",
                              hint="no known model has such rows: is the file damaged?")
    outcome, code = native.requantize_tensor(
        level, (row.source.quant, row.quant),
        (get(row.source.quant).row_bytes(n_cols), get(row.quant).row_bytes(n_cols)),
        (n_rows, shape[-2] if len(shape) > 1 else 1, n_cols), row.source.data, row.importance, file,
        offset, n_threads)
    if outcome == "failed":
        raise OSError(code, os.strerror(code))
    if outcome == "strange":
        raise InvalidArgument(f"{row.source.name} holds NaN or infinity",
                              hint="the source is damaged: get or convert it again")
    if outcome == "beyond":
        raise InvalidArgument(f"{row.source.name} holds numbers that {row.quant} can't",
                              hint="write it as BF16 with --tensor-type")
