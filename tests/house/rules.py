"""The rules for Python code: each takes a file and yields (line, what is wrong with it)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping

from house.tree import PACKAGE, Source

Found = Iterator[tuple[int, str]]
Rule = Callable[[Source], Found]

MAX_FUNCTION = 60
"""Lines that a function may have."""
BACKENDS = frozenset(p.parent.name for p in (PACKAGE / "backends").glob("[!_]*/__init__.py"))
ARCH_EXCEPTIONS = {"unladen.tokenizer.special"}
"""Modules that may test the architecture: for two vocabularies only its name says which white space
a token drops."""
FORBIDDEN = re.compile(r"(^|_)(utils?|helpers?|common|managers?)(_|$)")
MUTABLE_CALLS = {"list", "dict", "set", "bytearray", "defaultdict", "OrderedDict", "deque",
                 "Counter", "WeakValueDictionary", "WeakKeyDictionary"}
MUTATORS = {"append", "extend", "insert", "add", "update", "setdefault", "pop", "popitem", "remove",
            "discard", "clear", "appendleft", "sort", "reverse"}


def short_functions(source: Source) -> Found:
    """Functions have at most 60 lines."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            n = node.end_lineno - node.lineno + 1
            if n > MAX_FUNCTION:
                yield node.lineno, f"{node.name} has {n} lines, more than {MAX_FUNCTION}"


def no_vague_names(source: Source) -> Found:
    """No file, class or function is called utils, helpers, common or manager."""
    for word in source.path.removesuffix(".py").split("/"):
        if FORBIDDEN.search(word):
            yield 1, f"the name {word} says nothing"
    for node in ast.walk(source.tree):
        if (isinstance(node, ast.ClassDef | ast.FunctionDef)
                and FORBIDDEN.search(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).lower())):
            yield node.lineno, f"the name {node.name} says nothing"


def no_module_state(source: Source) -> Found:
    """Module variables are constants: they are named like constants and nothing changes them."""
    held = set()
    for node in source.tree.body:
        target = (node.targets[0] if isinstance(node, ast.Assign)
                  else node.target if isinstance(node, ast.AnnAssign) else None)
        if isinstance(target, ast.Name):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            if _is_mutable(node.value):
                held.add(target.id)
                if not re.fullmatch(r"_?[A-Z][A-Z0-9_]*|__\w+__", target.id):
                    yield node.lineno, f"{target.id} can be changed and isn't named as a constant"
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Global):
            yield node.lineno, f"global {', '.join(node.names)}"
        elif (name := _changed(node)) in held:
            yield getattr(node, "lineno", 1), f"{name} belongs to the module and is changed"


def _is_mutable(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):
        called = value.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        return name in MUTABLE_CALLS
    return isinstance(value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp
                      | ast.SetComp)


def _changed(node: ast.AST) -> str | None:
    """The name of the variable that ``node`` changes in place."""
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign | ast.Delete):
        targets = [t.value for t in node.targets if isinstance(t, ast.Subscript)]
    elif isinstance(node, ast.AugAssign):
        targets = [node.target.value if isinstance(node.target, ast.Subscript) else node.target]
    elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
          and node.func.attr in MUTATORS):
        targets = [node.func.value]
    return next((t.id for t in targets if isinstance(t, ast.Name)), None)


def no_arch_tests(source: Source) -> Found:
    """Only models/ tests which architecture a file has."""
    if source.part != "models" and source.module not in ARCH_EXCEPTIONS:
        yield from _compared(source, lambda name: name in ("arch", "architecture"),
                             lambda text: True)


def no_backend_tests(source: Source) -> Found:
    """Only backends/ tests which backend or device something is."""
    if source.part != "backends":
        yield from _compared(source, lambda name: True,
                             lambda text: text.partition(":")[0] in BACKENDS)


def _compared(source: Source, is_name: Callable[[str], bool], is_text: Callable[[str], bool]
              ) -> Found:
    for node in ast.walk(source.tree):
        sides: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            sides = [node.subject, *(p.pattern.value for p in node.cases
                                     if isinstance(p.pattern, ast.MatchValue))]
        elif (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
              and node.func.attr == "startswith"):
            sides = [node.func.value, *node.args]
        names = [n for n in map(_name, sides) if n]
        texts = [t for side in sides for t in _texts(side)]
        if any(map(is_name, names)) and any(map(is_text, texts)):
            yield getattr(node, "lineno", 1), f"tests {ast.unparse(sides[0])} for {texts}"


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _texts(node: ast.expr) -> list[str]:
    items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [i.value for i in items if isinstance(i, ast.Constant) and isinstance(i.value, str)]


def no_type_ids(source: Source) -> Found:
    """Only quants/ and gguf/ use GGUF's numbers of block formats; other parts use names."""
    if source.part not in ("quants", "gguf"):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Name | ast.Attribute) and _name(node) in ("type_id", "by_id"):
                yield node.lineno, f"{ast.unparse(node)}: use the format's name"


def no_silent_except(source: Source) -> Found:
    """An error is handled, raised again, or ignored with a comment that says why."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ExceptHandler):
            continue
        names = {_name(n) for n in ([*node.type.elts] if isinstance(node.type, ast.Tuple)
                                    else [node.type] if node.type else [])}
        raises = any(isinstance(n, ast.Raise) for n in ast.walk(node))
        uses = node.name is not None and any(
            isinstance(n, ast.Name) and n.id == node.name for n in ast.walk(node))
        if (not names or names & {"Exception", "BaseException"}) and not (raises or uses):
            yield node.lineno, "catches everything and forgets it"
        lines = source.lines[node.lineno - 1:node.end_lineno]
        if isinstance(node.body[0], ast.Pass) and not any("# " in line for line in lines):
            yield node.lineno, "passes over an error and doesn't say why"


RULES: Mapping[Rule, str] = {
    short_functions: "def f():\n" + "    x = 1\n" * MAX_FUNCTION,
    no_vague_names: "class CacheManager: pass",
    no_module_state: "cache = {}\nSEEN = set()\ndef f(x):\n    SEEN.add(x)",
    no_arch_tests: "if file.arch == 'llama': pass",
    no_backend_tests: "if device.name.startswith('cpu'): pass",
    no_type_ids: "n = quant.type_id",
    no_silent_except: "try:\n    f()\nexcept OSError:\n    pass",
}
"""Each rule and the shortest code that breaks it."""
