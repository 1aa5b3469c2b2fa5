"""The package can be imported without anything that only some systems have.

mypy checks what functions use of such things: ``make test`` runs it for Linux, macOS and Windows.
"""

from __future__ import annotations

import os
import subprocess
import sys

from house.tree import ROOT, package_sources

SCRIPT = """
import asyncio, concurrent.futures.thread, ctypes, ctypes.util, email, getpass, http.client, json
import logging.handlers, mmap, multiprocessing, os, pathlib, platform, secrets, select, shutil
import signal, socket, ssl, subprocess, sys, tempfile, threading, time, urllib.request, uuid
import numpy, typer  # with what they import themselves, before the system is another

names, modules = sys.argv[1].split(), sys.argv[2].split()
for module in (os, mmap, signal, time, select, socket, ctypes, sys):
    for name in [n for n in vars(module) if n in names]:
        delattr(module, name)
for name in modules:
    sys.modules[name] = None

import importlib
for name in sys.argv[3].split():
    importlib.import_module(name)
print("all")
"""
"""Imports modules of the package in a process without names of the system."""
POSIX_NAMES = (
    "register_at_fork fork forkpty posix_fallocate posix_fadvise pread pwrite preadv pwritev "
    "sched_getaffinity sched_setaffinity sysconf getuid geteuid getgid getpgid setsid killpg "
    "mkfifo O_NONBLOCK O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_SYNC statvfs uname getloadavg chown "
    "lchown fchmod fchown nice wait waitid waitpid WNOHANG memfd_create copy_file_range sendfile "
    "MAP_PRIVATE MAP_SHARED MAP_ANONYMOUS MAP_ANON MAP_POPULATE PROT_READ PROT_WRITE MADV_DONTNEED "
    "MADV_WILLNEED MADV_HUGEPAGE MADV_NOHUGEPAGE MADV_SEQUENTIAL MADV_RANDOM MADV_FREE "
    "SIGKILL SIGHUP SIGQUIT SIGUSR1 SIGUSR2 SIGPIPE SIGALRM SIGCHLD SIGTSTP SIGCONT SIGSTOP "
    "SIGWINCH setitimer alarm pause pthread_sigmask pthread_kill sigwait ITIMER_REAL "
    "clock_gettime clock_settime tzset AF_UNIX socketpair epoll poll kqueue")
POSIX_MODULES = "fcntl resource termios tty pty pwd grp posix syslog crypt nis spwd"
WINDOWS_MODULES = "winreg _winapi msvcrt winsound nt"


def imported(names: str, modules: str, wanted: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(sys.path)  # the package that the tests import
    return subprocess.run([sys.executable, "-c", SCRIPT, names, modules, wanted], cwd=ROOT,
                          env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
                          check=False)


def test_every_module_imports_without_posix() -> None:
    wanted = [s.module for s in package_sources()
              if s.part not in ("__main__",) and not s.module.startswith("unladen._native")]
    assert len(wanted) > 100
    done = imported(POSIX_NAMES, f"{POSIX_MODULES} {WINDOWS_MODULES}", " ".join(wanted))
    assert done.stdout == "all\n", done.stderr


def test_a_need_for_posix_is_noticed() -> None:
    done = imported("", "fcntl", "fcntl")
    assert done.returncode != 0 and "fcntl" in done.stderr
