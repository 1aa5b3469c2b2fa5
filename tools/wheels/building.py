"""Builds wheels: the kernels once for a machine, the bindings once for each Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLIBC = (2, 28)
"""The newest glibc that a wheel may need: Debian 10, RHEL 8, Ubuntu 20.04 and later have it."""
NEEDED = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux-[\w-]+)\.so\.\d+")
"""Libraries that a wheel may need: every Linux has them. The C++ library is linked statically."""


@dataclass(frozen=True)
class Machine:
    """A kind of machine; ``name`` is Linux's name for it, which wheels use, too."""

    name: str

    @property
    def zig_target(self) -> str:
        """zig's name for the machine."""
        return f"{self.name}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"

    @property
    def platform_tag(self) -> str:
        """The platform tag of wheels for the machine."""
        return f"manylinux_{GLIBC[0]}_{GLIBC[1]}_{self.name}"


def program(name: str) -> str:
    """The path of the program ``name``: beside this Python, or on the system's path."""
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        sys.exit(f"error: {name} is missing\nhint: pip install --group wheels")
    return found


def environment(zig_target: str) -> dict[str, str]:
    """Environment variables for zig-c++ and for builds that call it."""
    import ziglang
    zig = Path(ziglang.__file__).parent / "zig"
    wanted = os.environ | {"UNLADEN_ZIG": str(zig), "UNLADEN_ZIG_TARGET": zig_target}
    if "ccache" in wanted.get("CMAKE_CXX_COMPILER_LAUNCHER", ""):
        # ccache would hash the script as the compiler and not notice another version of zig.
        from importlib.metadata import version
        wanted |= {"CCACHE_COMPILERTYPE": "clang",
                   "CCACHE_COMPILERCHECK": f"string:zig {version('ziglang')}",
                   "CCACHE_EXTRAFILES": str(ROOT / "tools" / "wheels" / "zig-c++")}
    return wanted


def configure(folder: Path, env: dict[str, str], *definitions: str) -> None:
    """Configure a build with zig in ``folder``."""
    subprocess.run([
        program("cmake"), "-S", ROOT, "-B", folder, "-G", "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={program('ninja')}",
        f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'zig.cmake'}",
        *(f"-D{each}" for each in definitions)],
        env=env, check=True, stdout=subprocess.DEVNULL)


def core(machine: Machine, folder: Path, *, speed: str) -> Path:
    """A library of everything but the bindings: it takes most of the time and needs no Python."""
    env = environment(machine.zig_target)
    configure(folder, env, "CMAKE_BUILD_TYPE=Release", f"UNLADEN_HEADERS={ROOT}",
              f"UNLADEN_ISA_SPEED={speed}")
    subprocess.run([program("cmake"), "--build", folder, "--target", "core_archive"], env=env,
                   check=True, stdout=subprocess.DEVNULL)
    return folder / "libcore.a"


def wheel(python: Path, machine: Machine, library: Path, source: Path, target: Path, *,
          abi3: bool) -> Path:
    """The wheel of ``source`` (a folder or an sdist) for ``python``; with ``abi3`` it also works
    with every later Python."""
    version = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"],
                             check=True, capture_output=True, text=True).stdout.split()
    suffix = ".abi3.so" if abi3 else f".cpython-{''.join(version)}-{machine.name}-linux-gnu.so"
    env = environment(machine.zig_target) | {"SETUPTOOLS_EXT_SUFFIX": suffix}
    for old in target.glob("*.whl"):
        old.unlink()
    settings = [f"cmake.define.UNLADEN_CORE={library}",
                f"cmake.define.CMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'zig.cmake'}"]
    subprocess.run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", target,
                    *(x for s in settings for x in ("--config-settings", s)), source],
                   env=env, check=True)
    (built,) = target.glob("*.whl")
    done = subprocess.run([sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag",
                           machine.platform_tag, built], check=True, capture_output=True, text=True)
    return target / done.stdout.split()[-1]


def sdist(target: Path) -> Path:
    """The source distribution."""
    for old in target.glob("*.tar.gz"):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", target,
                    ROOT], check=True, stdout=subprocess.DEVNULL)
    (made,) = target.glob("*.tar.gz")
    return made


def missing(path: Path) -> list[str]:
    """Tracked files of the package that the wheel ``path`` lacks, and files in it that aren't
    tracked. C++ sources don't belong into a wheel."""
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "src"],
                          cwd=ROOT, check=True, capture_output=True, text=True)
    wanted = {line.removeprefix("src/") for line in done.stdout.splitlines()
              if "/csrc/" not in line and (ROOT / line).exists()}
    with zipfile.ZipFile(path) as archive:
        found = {n for n in archive.namelist() if ".dist-info/" not in n and not n.endswith("/")}
    found = {n for n in found if not n.startswith("unladen/_native.")}
    return [f"lacks {n}" for n in sorted(wanted - found)] + [
        f"has {n}" for n in sorted(found - wanted)]


def audit(path: Path, machine: Machine) -> list[str]:
    """The faults of a wheel's files and tags. The tags must match what its module needs."""
    with zipfile.ZipFile(path) as archive:
        (module,) = (n for n in archive.namelist() if n.startswith("unladen/_native.")
                     and n.endswith(".so"))
        copy = path.with_suffix(".module")
        copy.write_bytes(archive.read(module))
    try:
        wrong = _wrong_needs(copy, machine)
    finally:
        copy.unlink()
    wrong += missing(path)
    if "-abi3-" in path.name:
        done = subprocess.run([program("abi3audit"), "--strict", "--assume-minimum-abi3", "3.12",
                               path], capture_output=True, text=True)
        if done.returncode:
            wrong.append(done.stdout + done.stderr)
    shown = subprocess.run([program("auditwheel"), "show", path], capture_output=True, text=True)
    found = re.search(r'tag:\s*"?manylinux_(\d+)_(\d+)_(\w+)', " ".join(shown.stdout.split()))
    if not found or (int(found[1]), int(found[2])) > GLIBC or found[3] != machine.name:
        wrong.append(f"auditwheel finds it good for {found[0] if found else shown.stdout}")
    return wrong


def _wrong_needs(module: Path, machine: Machine) -> list[str]:
    from elftools.elf.elffile import ELFFile
    with module.open("rb") as file:
        elf = ELFFile(file)
        wrong = [] if elf["e_machine"] == {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}[
            machine.name] else [f"it is for {elf['e_machine']}"]
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        wrong += [f"it needs {name}" for name in needed if not NEEDED.fullmatch(name)]
        for _, versions in elf.get_section_by_name(".gnu.version_r").iter_versions():
            for one in versions:
                found = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", one.name)
                if found and (int(found[1]), int(found[2])) > GLIBC:
                    wrong.append(f"it needs {one.name}")
    return wrong
