"""The tools that build and try wheels, as far as they can be tested without building one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from house.tree import ROOT

WHEELS = ROOT / "tools" / "wheels"
CONTAINER = ROOT / "Containerfile"


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The tools' modules, by name."""
    import importlib
    names = ("building", "checking", "arm", "gate")
    monkeypatch.syspath_prepend(str(WHEELS))
    yield {name: importlib.import_module(name) for name in names}
    for name in names:
        del sys.modules[name]


@pytest.fixture(scope="session")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_missing_files_are_noticed(tools: dict[str, Any], tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.splitlines()
    names = [n.removeprefix("src/") for n in listed if "/csrc/" not in n and (ROOT / n).exists()]
    assert {"unladen/py.typed", "unladen/data/tiny.gguf", "unladen/data/chat.gguf"} <= {*names}

    def wrong(*files: str) -> list[str]:
        path = tmp_path / "a.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for name in (*files, "unladen/_native.abi3.so", "unladen-0.dist-info/METADATA"):
                archive.writestr(name, "")
        # Files that git doesn't track yet are part of the package, too.
        return [line for line in tools["building"].missing(path)
                if line.split()[1] in {*names, "unladen/strange"}]
    assert wrong(*names) == []
    assert wrong(*names, "unladen/strange") == ["has unladen/strange"]
    assert wrong(*names[1:]) == [f"lacks {names[0]}"]


def test_other_levels_and_stories_are_noticed(tools: dict[str, Any], tmp_path: Path) -> None:
    story = tools["checking"].STORY.read_text()
    fake = tmp_path / "fake.py"
    fake.write_text("import sys\n"
                    "if sys.argv[1] == '-c': print('portable avx2')\n"
                    f"else: sys.stdout.write({story!r})\n")
    command = [sys.executable, str(fake)]

    def wrong(*levels: str) -> list[str]:
        found: list[str] = tools["checking"].examined(command, command, {}, list(levels))
        return found
    assert wrong("portable", "avx2") == []
    assert wrong("portable") == ["levels: portable avx2\n instead of ['portable']"]
    fake.write_text(fake.read_text().replace("else: ", "else: print('Twice', end=''); "))
    assert len(wrong("portable", "avx2")) == 1


def test_failures_of_the_gate(tools: dict[str, Any]) -> None:
    output = ("[1/3] Building CXX object a.o\n"
              "FAILED: [code=1] core/a.o \n/zig-c++ -c a.cc\na.cc:1:2: error: no such thing\nnote\n"
              "[2/3] Building CXX object b.o\n"
              "FAILED: core/c.o\nc.cc:5:1: fatal error: 'unistd.h' file not found\n"
              "ninja: build stopped\n")
    assert dict(tools["gate"].failures(output)) == {
        "core/a.o": ["a.cc:1:2: error: no such thing"],
        "core/c.o": ["c.cc:5:1: fatal error: 'unistd.h' file not found"]}


def test_headers_for_windows_differ_in_one_file(tools: dict[str, Any], tmp_path: Path) -> None:
    folders = [tools["gate"].python_headers(tmp_path / name, is_windows=name == "windows")
               for name in ("windows", "windows", "other")]
    windows, _, other = ({p.name: p.resolve() for p in folder.iterdir()} for folder in folders)
    if "Python.h" not in other:
        pytest.skip("this Python has no headers")
    assert windows.pop("pyconfig.h") == WHEELS / "windows" / "pyconfig.h"
    other.pop("pyconfig.h", None)
    assert windows == other


def test_levels_are_those_that_are_built(tools: dict[str, Any]) -> None:
    built = set(re.findall(r"^ *unladen_isa\((\w+)", (ROOT / "CMakeLists.txt").read_text(), re.M))
    named = {level for levels in tools["gate"].TARGETS.values() for level in levels}
    assert named <= built
    assert built - set(tools["checking"].X86_LEVELS) == {"portable", "neon", "dotprod", "i8mm"}


def test_the_story_is_told() -> None:
    """The module under test writes the story that every wheel must write."""
    done = subprocess.run([sys.executable, "-m", "unladen", "run", "tiny", "Once upon a time",
                           "--temp", "0"], capture_output=True, text=True, check=True)
    assert done.stdout == (WHEELS / "story.txt").read_text()


# ---- what the project says of itself


def test_wgpu_comes_where_it_has_a_wheel(project: dict[str, Any]) -> None:
    from packaging.requirements import Requirement
    (wgpu,) = (r for text in project["project"]["dependencies"]
               if (r := Requirement(text)).name == "wgpu")
    assert wgpu.marker is not None
    for system, machine, expected in (
            ("linux", "x86_64", True), ("linux", "aarch64", True), ("linux", "riscv64", False),
            ("darwin", "arm64", True), ("win32", "AMD64", True), ("win32", "x86", False),
            ("freebsd14", "x86_64", False)):
        assert wgpu.marker.evaluate({"sys_platform": system,
                                     "platform_machine": machine}) == expected
    assert project["project"]["optional-dependencies"]["gpu"] == []


def test_what_builds_it_is_bounded(project: dict[str, Any]) -> None:
    from packaging.requirements import Requirement
    wheels = {r.name: r for text in project["dependency-groups"]["wheels"]
              if (r := Requirement(text))}
    for text in project["build-system"]["requires"]:
        wanted = Requirement(text)
        assert any(s.operator == "<" for s in wanted.specifier), text
        assert wheels[wanted.name].specifier == wanted.specifier
    assert "urls" not in project["project"]


# ---- the container


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", CONTAINER.read_text(), flags=re.M).replace("\\\n", " ")
    return [(line.split()[0], line.partition(" ")[2].strip())
            for line in text.splitlines() if line.strip()]


def test_container_copies_what_the_build_needs() -> None:
    """The files that are copied include every file that CMake and pyproject.toml name."""
    copied = {source for word, rest in instructions() if word == "COPY" and "--from" not in rest
              for source in rest.split()[:-1]}
    assert all((ROOT / source).exists() for source in copied)
    assert {"CMakeLists.txt", "pyproject.toml", "README.md", "LICENSE", "cmake", "src"} <= copied


def test_container_is_small_and_no_root() -> None:
    words = [word for word, _ in instructions()]
    assert set(words) <= {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "ENTRYPOINT", "CMD"}
    last = max(i for i, word in enumerate(words) if word == "FROM")
    assert words.count("FROM") == 2  # what compiles stays behind
    shipped = dict(instructions()[last:])
    assert "g++" not in shipped["RUN"] and shipped["USER"] not in ("root", "0", "")
    assert shipped["ENTRYPOINT"] == '["unladen"]'
    names = {rest.split()[-1] for word, rest in instructions()[:last] if word == "FROM"}
    (stage,) = re.findall(r"--from=(\w+)", shipped["COPY"])
    assert stage in names


# ---- the build


def test_no_compiler_is_said_at_once(tmp_path: Path) -> None:
    cmake = shutil.which("cmake") or shutil.which("cmake", path=Path(sys.executable).parent)
    ninja = shutil.which("ninja") or shutil.which("ninja", path=Path(sys.executable).parent)
    if cmake is None or ninja is None:
        pytest.skip("no cmake or no ninja")
    done = subprocess.run([cmake, "-S", ROOT, "-B", tmp_path, "-G", "Ninja",
                           f"-DCMAKE_MAKE_PROGRAM={ninja}"], env={"PATH": str(tmp_path)},
                          capture_output=True, text=True, check=False)
    text = " ".join(done.stderr.split())
    assert done.returncode != 0
    assert "error: no C++ compiler was found" in text and "apt-get install g++" in text
