"""How a kernel's text is put together."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unladen.backends.wgpu import source


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "quants").mkdir()
    monkeypatch.setattr(source, "FOLDER", tmp_path)
    return tmp_path


def test_parts_come_once_and_before_their_user(folder: Path) -> None:
    (folder / "parts/a.wgsl").write_text("#use b\nfn a() {}\n")
    (folder / "parts/b.wgsl").write_text("fn b() {}\n")
    (folder / "k.wgsl").write_text("#use a b\nfn main() {}\n")
    assert source.assemble("k", "", {}).text.split("\n") == ["fn b() {}", "fn a() {}",
                                                             "fn main() {}", ""]


def test_lines_are_kept_by_constants(folder: Path) -> None:
    (folder / "k.wgsl").write_text("#if A\na\n#if B\nab\n#else\na only\n#end\n#else\n#if B\n"
                                   "b only\n#end\n#end\n")
    def lines(**constants: int | bool) -> list[str]:
        text = source.assemble("k", "", constants).text
        return [line for line in text.split("\n") if line and not line.startswith("const")]

    assert lines(A=True, B=True) == ["a", "ab"]
    assert lines(A=1) == ["a", "a only"]
    assert lines(A=False, B=True) == ["b only"]
    assert lines() == []


def test_numbers_become_constants_and_the_format_its_file(folder: Path) -> None:
    (folder / "quants/q9_k.wgsl").write_text("#grid some\nfn codes() {}\n")
    (folder / "k.wgsl").write_text("#use quant\n@group(1) @binding(2) var<storage, read> w: X;\n"
                                   "@group(1) @binding(0) var<uniform> m: M;\n")
    made = source.assemble("k", "Q9_K", {"WG": 64, "FLAG": True})
    assert made.text.startswith("const WG = 64u;\nfn codes() {}\n")
    assert made.grid == "some"
    assert made.bindings == ((0, "uniform", "m"), (2, "read-only-storage", "w"))


def test_every_loop_counts_to_its_end() -> None:
    """Drivers may not stop a loop that doesn't: kernels are compiled without such checks."""
    for path in source.FOLDER.rglob("*.wgsl"):
        code = re.sub(r"//.*", "", path.read_text())
        assert not re.search(r"\b(while|loop)\b", code), path
        heads = re.findall(r"\bfor \((.*)\) \{", code)
        assert len(heads) == len(re.findall(r"\bfor\b", code)), path
        for head in heads:
            _, condition, step = head.split(";")
            counter = step.split()[0].removesuffix("++")
            assert re.search(rf"(?<!\w){counter}\b.* (<|<=|>) ", condition), (path, head)
            assert re.fullmatch(r" *\w+(\+\+| (\+|\*|/)= .+)", step), (path, head)


def kernel_texts() -> list[Path]:
    return sorted(source.FOLDER.glob("*.wgsl"))


BARRIER = re.compile(r"\b(workgroupBarrier|sum_all|max_all)\(")
"""What all threads of a workgroup must come to together."""


def block(code: str, at: int) -> str:
    """The text between the brace at ``at`` and the one that closes it."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        if depth == 0:
            return code[at:i]
    raise AssertionError(code[at:])


def branches(text: str, *, which: int) -> str:
    """``text`` without comments, and with one side of each #if (``which`` 1: what #else has)."""
    kept: list[str] = []
    sides: list[list[list[str]]] = []
    for line in re.sub(r"//.*", "", text).split("\n"):
        if line.startswith("#if"):
            sides.append([[]])
        elif line.startswith("#else"):
            sides[-1].append([])
        elif line.startswith("#end") and not line.startswith("#enable"):
            chosen = sides.pop()
            (sides[-1][-1] if sides else kept).extend(chosen[min(which, len(chosen) - 1)])
        elif not line.startswith("#"):
            (sides[-1][-1] if sides else kept).append(line)
    return "\n".join(kept)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("path", kernel_texts(), ids=lambda path: path.stem)
def test_threads_come_to_barriers_together(path: Path, which: int) -> None:
    """By the rules of WGSL for uniform control flow, and by those of D3D12's compiler, which takes
    no barrier after a thread may have returned."""
    code = branches(path.read_text(), which=which)
    apart = {"lane", "who", *re.findall(r"var<workgroup> (\w+)", code)}
    main = block(code, code.index("{", code.index("fn main(")))

    def differs(text: str, *known: str) -> bool:
        """Whether a thread may have its own value, as far as the compiler knows."""
        names = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", text)).difference(known)
        return bool(apart & names) and "workgroupUniformLoad" not in text
    for name, value in re.findall(r"\b(?:let|var) (\w+)[^=;]*= ([^;]*);", main):
        if differs(value):
            apart.add(name)
    for head in re.finditer(r"\b(?:for|if) \((.*)\) \{", main):
        body = block(main, head.end() - 1)
        counter = re.match(r"var (\w+) = ([^;]*);", head[1])
        known = [counter[1]] if counter and not differs(counter[2]) else []
        if differs(head[1], *known):
            assert not BARRIER.search(body), (head[0], body)
        returns = "return;" in body and BARRIER.search(main[head.end() + len(body):])
        assert not returns, (head[0], body)
