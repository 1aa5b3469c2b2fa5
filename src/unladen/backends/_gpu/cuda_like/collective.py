"""Sums over several cards, by the maker's library: NCCL, or RCCL, which has the same functions."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_int, c_void_p
from typing import Any

from unladen.backends._gpu import forks
from unladen.backends._gpu.cuda_like.buffers import CudaBuffer, of_gpu
from unladen.backends._gpu.cuda_like.device import Gpu
from unladen.backends._gpu.cuda_like.memory import Memory
from unladen.backends._gpu.cuda_like.vendor import COLLECTIVES, Collectives, Vendor
from unladen.backends._gpu.loading import load_library
from unladen.backends.base import Place
from unladen.errors import DeviceLost, UnladenError

OFF_VARIABLE = "UNLADEN_NO_NCCL"
"""Environment variable: "1" turns these libraries off."""
FLOAT32, SUM = 7, 0
"""Numbers of nccl.h: ncclFloat32 and ncclSum."""
OLDEST, NEXT = 2400, 30000
"""The first version that has all functions, and the first of another interface. Versions before 2.9
are counted as 1000 * major + 100 * minor + patch, those since then with 10000 * major."""


class Library:
    """The library that was loaded. ``path``: its file."""

    def __init__(self, about: Collectives, library: ctypes.CDLL) -> None:
        self.name, self.path = about.name, str(library._name)
        self.functions: dict[str, Callable[..., int]] = {}
        for name, (symbol, types) in COLLECTIVES.items():
            function = getattr(library, symbol)
            function.argtypes, function.restype = types, c_int
            self.functions[name] = function
        self._text = library.ncclGetErrorString
        self._text.argtypes, self._text.restype = (c_int,), ctypes.c_char_p
        code = c_int(0)
        failed = self.functions["version"](ctypes.byref(code))
        self.code = 0 if failed else code.value

    @property
    def version(self) -> str:
        """The version, as people write it."""
        major, rest = divmod(self.code, 10000 if self.code >= 10000 else 1000)
        return f"{major}.{rest // 100}.{rest % 100}"

    @property
    def is_known(self) -> bool:
        """Whether the functions are as this module calls them."""
        return OLDEST <= self.code < NEXT

    def call(self, devices: str, name: str, *arguments: Any) -> None:
        """Call the function called ``name``. Raises :class:`UnladenError`, which names
        ``devices``."""
        number = self.functions[name](*arguments)
        if number:
            raise self.error(devices, name, number)

    def error(self, devices: str, name: str, number: int) -> UnladenError:
        """The exception for error ``number`` of the function called ``name``."""
        text = (self._text(number) or b"an unknown error").decode("utf-8", "replace")
        return UnladenError(f"{devices}: {COLLECTIVES[name][0]} failed: {text} ({number})",
                            hint=f"{OFF_VARIABLE}=1 adds by copies instead, without {self.name}")


@functools.cache
def library_of(about: Collectives) -> Library | None:
    """The library; None where there is none."""
    names = [symbol for symbol, _ in COLLECTIVES.values()]
    found = load_library((*about.find(), *about.libraries), *names, "ncclGetErrorString")
    return None if found is None else Library(about, found)


def is_off() -> bool:
    """Whether the environment turns these libraries off."""
    return os.environ.get(OFF_VARIABLE, "0") not in ("", "0")


def describe(about: Collectives) -> str:
    """The library's version and path, or why it isn't used."""
    if is_off():
        return f"turned off by {OFF_VARIABLE}"
    library = library_of(about)
    if library is None:
        return (f"not found ({about.libraries[0]}): several cards add by copies between them; to "
                f"change that, {about.no_library}")
    known = "" if library.is_known else ", which isn't used: 2.4 to 2.x is needed"
    return f"{library.version} ({library.path}){known}"


def adds_with(vendor: Vendor, gpus: Sequence[Gpu]) -> str:
    """The name and version of the library that adds over ``gpus``; "" where none does. They must be
    different cards, and the order of a sum must be the same in every run: two numbers have only
    one."""
    about = vendor.collectives
    if about is None or is_off() or len({g.context.found.number for g in gpus}) < len(gpus):
        return ""
    variable, value = about.fixed_order
    may_differ = about.any_order and any(g.context.found.chip.number >= about.any_order
                                         for g in gpus)
    if len(gpus) < 2 or (len(gpus) > 2 and may_differ and os.environ.get(variable) != value):
        return ""
    library = library_of(about)
    return "" if library is None or not library.is_known else f"{library.name} {library.version}"


class Communicators:
    """The library's communicators of ``gpus``, different cards: one for each.

    A card waits in its kernel for the others, and only an abort of its communicator ends that. So
    one that is lost, or that the library gives up, ends the communicators of all, whichever thread
    notices it. They are made anew for the next sum.
    """

    def __init__(self, library: Library, gpus: Sequence[Gpu]) -> None:
        self.library, self.gpus = library, gpus
        self.names = ", ".join(g.name for g in gpus)
        self._made: list[c_void_p] = []
        # Objects that are freed while the thread has the lock may have to abort, too.
        self._using = threading.RLock()
        for gpu in gpus:
            gpu.context.watched.add(self)

    def __getitem__(self, i: int) -> c_void_p:
        """The communicator of card number ``i`` of these."""
        if not self._made:
            raise DeviceLost(f"{self.names}: a card was lost", hint="load the model again")
        return self._made[i]

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """No other thread aborts them meanwhile. What begins here and fails is aborted: some cards
        may wait for the others."""
        try:
            with self._using:
                try:
                    if not self._made:
                        self._connect()
                    yield
                except UnladenError as error:
                    self._raise_if_lost()
                    self._abort(error)
                    raise
                except BaseException as error:
                    self._abort(UnladenError(f"{self.names}: a sum was interrupted: {error!r}"))
                    raise
        finally:
            self._end_if_lost()

    def _connect(self) -> None:
        n = len(self.gpus)
        for gpu in self.gpus:
            gpu.context.enter()
        made, numbers = (c_void_p * n)(), (c_int * n)(*(g.context.found.number for g in self.gpus))
        self.library.call(self.names, "connect", made, n, numbers)
        self._made = [c_void_p(each) for each in made]

    def check(self) -> None:
        """Raise :class:`DeviceLost` where a card is lost, and :class:`UnladenError` where the
        library failed. What was started then ends without a sum: the other cards would wait for it
        for ever. Does nothing while another thread starts work."""
        # A thread that waits here may have the lock of a card, which that other thread waits for.
        if not self._using.acquire(blocking=False):
            return
        try:
            if not self._made:
                return
            self._raise_if_lost()
            failed = c_int(0)
            for communicator in self._made:
                self.library.call(self.names, "failure", communicator, ctypes.byref(failed))
                if failed.value:
                    raise self.library.error(self.names, "all_reduce", failed.value)
        except UnladenError as error:
            self._abort(error)
            raise
        finally:
            self._using.release()
            self._end_if_lost()

    def _raise_if_lost(self) -> None:
        for gpu in self.gpus:
            try:
                gpu.context.enter()
                gpu.context.poll(gpu.compute.handle)
            except DeviceLost as error:
                found = DeviceLost(f"{self.names}: {error.message}", hint=error.hint)
                self._abort(found)
                raise found from error

    def _end_if_lost(self) -> None:
        if self._made and any(g.context.is_lost for g in self.gpus):
            self.end("a card was lost")

    def end(self, why: str) -> None:
        """Abort them, since a card is lost. A thread that uses them does that itself when it is
        done."""
        if self._using.acquire(blocking=False):
            try:
                self._abort(DeviceLost(f"{self.names}: {why}", hint="load the model again"))
            finally:
                self._using.release()

    def _abort(self, error: UnladenError) -> None:
        made, self._made = self._made, []
        with contextlib.ExitStack() as stack:
            for gpu in self.gpus if made else ():
                gpu.context.interrupt(error)
            for gpu in self.gpus if made else ():
                try:
                    stack.enter_context(gpu.context.entered())
                    break
                except UnladenError:
                    continue  # this card is lost, too
            for communicator in made:
                self.library.functions["abort"](communicator)

    def destroy(self) -> None:
        """Give them back when their work is done."""
        try:
            for gpu in self.gpus:
                gpu.context.enter()
                gpu.compute.wait()
        except UnladenError as error:
            self._abort(error)  # a card is lost, and the others may wait for it
        with self._using:
            made, self._made = self._made, []
            for communicator in made:
                self.library.functions["destroy"](communicator)


class CardGroup:
    """``gpus``, different cards that add up values.

    All groups of a backend have one ``lock``, so that their work is started in the same order on
    all cards: a card that waits for another one never waits for work that comes after its own.
    """

    def __init__(self, library: Library, gpus: Sequence[Gpu], lock: threading.Lock) -> None:
        self.library, self.gpus, self._lock = library, gpus, lock
        self._communicators = Communicators(library, gpus)
        with self._started():
            pass

    def all_reduce(self, parts: Sequence[Place], totals: Sequence[Place], count: int) -> None:
        """See :class:`~unladen.backends.base.Collective`."""
        sources = [_place(of_gpu(b), offset, 4 * count) for b, offset in parts]
        targets = [_place(of_gpu(b), offset, 4 * count) for b, offset in totals]
        used = [(gpu, {source, target}) for gpu, (source, _), (target, _)
                in zip(self.gpus, sources, targets, strict=True)]
        with self._started():
            for gpu, memories in used:
                gpu.context.enter()
                for memory in memories:
                    memory.begin(gpu.compute)
            self._reduce([m.address + at for m, at in sources],
                         [m.address + at for m, at in targets], count)
            for gpu, memories in used:
                gpu.context.enter()
                for memory in memories:
                    memory.end(gpu.compute)

    def _reduce(self, sources: Sequence[int], targets: Sequence[int], count: int) -> None:
        library, names = self.library, self._communicators.names
        library.call(names, "begin")
        try:
            for i, gpu in enumerate(self.gpus):
                library.call(names, "all_reduce", sources[i], targets[i], count, FLOAT32, SUM,
                             self._communicators[i], gpu.compute.handle)
        finally:
            library.call(names, "end")

    @contextlib.contextmanager
    def _started(self) -> Iterator[None]:
        """Nothing else is started on the cards meanwhile, and they are connected."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._lock)
            for gpu in sorted(self.gpus, key=lambda gpu: gpu.name):
                stack.enter_context(gpu.lock)
            stack.enter_context(self._communicators.used())
            yield

    @forks.unless_ending
    def __del__(self) -> None:
        communicators = getattr(self, "_communicators", None)
        if communicators is not None:
            context = next((g.context for g in self.gpus if g.context.is_usable), None)
            if context is not None:
                context.later(communicators.destroy)


def _place(buffer: CudaBuffer, offset: int, nbytes: int) -> tuple[Memory, int]:
    ((part, at, _, _),) = buffer.pieces(offset, nbytes)  # an arena is in one piece
    memory: Memory = part.buffer
    return memory, at
