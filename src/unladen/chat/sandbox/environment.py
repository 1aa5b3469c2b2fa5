"""jinja2's immutable sandbox with limits: the environment, and templates that it compiles."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from unladen.chat.sandbox import filters, methods, operators
from unladen.chat.sandbox.budget import Budget
from unladen.chat.sandbox.limits import LimitExceeded, Refused
from unladen.chat.sandbox.rewrite import (
    MAX_BRACKETS,
    MAX_CHARS,
    MAX_TOKENS,
    check,
    cost,
    rewrite,
)

if TYPE_CHECKING:
    from jinja2 import nodes
    from jinja2.compiler import CodeGenerator, Frame
    from jinja2.ext import Extension
    from jinja2.lexer import Token, TokenStream
    from jinja2.parser import Parser
    from jinja2.runtime import Context
    from jinja2.sandbox import ImmutableSandboxedEnvironment
else:
    # jinja2 is imported when a template is compiled; environment() puts these classes before its.
    CodeGenerator = Context = Extension = ImmutableSandboxedEnvironment = object

FILENAME: Final = "<chat template>"
"""The name of a template's code in tracebacks, by which an error's line is found."""
BUDGET: Final = "<budget>"
"""The key of a rendering's budget among its variables. No template can write this name."""
COMPILE_SECONDS: Final = 0.5
"""Processor time that compiling a template may take, in seconds."""
LOOP_NAMES: Final = frozenset({
    "changed", "cycle", "depth", "depth0", "first", "index", "index0", "last", "length",
    "nextitem", "previtem", "revindex", "revindex0"})
"""What a loop tells about itself."""


class _Context(Context):
    """The variables of a rendering."""

    @functools.cached_property
    def budget(self) -> Budget:
        """What the rendering may still use."""
        budget: Budget = self.parent[BUDGET]
        return budget


class _Generator(CodeGenerator):
    """Writes the Python code of a template; each block counts itself when it is entered."""

    _ends: float | None = None

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        now = time.thread_time()
        if self._ends is None:
            self._ends = now + COMPILE_SECONDS
        if now > self._ends:
            raise LimitExceeded("takes too long to compile", "a template made by a program")
        return super().visit(node, *args, **kwargs)

    def blockvisit(self, nodes: Any, frame: Frame) -> None:
        n_nodes, n_chars = cost(*nodes)
        self.writeline(f"context.budget.enter({n_nodes}, {n_chars})")
        super().blockvisit(nodes, frame)


class _Extension(Extension):
    """Bounds the tokens of a template, and reads ``{% generation %}`` as if it was not there."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        depth = 0
        for n, token in enumerate(stream):
            depth += (token.type in ("lparen", "lbracket", "lbrace")) - (
                token.type in ("rparen", "rbracket", "rbrace"))
            if n > MAX_TOKENS or depth > MAX_BRACKETS:
                raise LimitExceeded("is too large" if n > MAX_TOKENS else "nests too many brackets",
                                    "a template made by a program")
            yield token


class _Environment(ImmutableSandboxedEnvironment):
    """The immutable sandbox of jinja2, with counts at every operator, call and attribute."""

    intercepted_binops = frozenset(operators.PLAIN)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        return operators.apply(context.budget, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if attr.startswith("_"):
            return False
        names = self.attributes.get(type(obj))
        if names is not None:
            return attr in names
        if type(obj) is self.namespace:
            return True
        if type(obj).__module__.partition(".")[0] in ("builtins", "types", "jinja2"):
            return False
        return super().is_safe_attribute(obj, attr, value)

    @functools.cached_property
    def namespace(self) -> type:
        """The class of a template's ``namespace``, which has the names that the template gives."""
        from jinja2.utils import Namespace
        return type("Namespace", (Namespace,), {"__repr__": _no_text})

    @functools.cached_property
    def attributes(self) -> Mapping[type, frozenset[str]]:
        """What templates may read of values of the types that Python and jinja2 have."""
        from jinja2.runtime import LoopContext, Macro, TemplateReference
        from jinja2.utils import Cycler, Joiner
        from markupsafe import Markup
        return {str: methods.STRING, Markup: methods.STRING,
                list: methods.LIST | methods.GROWING,
                tuple: methods.LIST, dict: methods.DICT, LoopContext: LOOP_NAMES,
                Macro: frozenset({"arguments", "name"}),
                Cycler: frozenset({"current", "next", "reset"}), Joiner: frozenset(),
                TemplateReference: frozenset()}

    def wrap_str_format(self, value: Any) -> None:
        """None: ``format`` stays a method, and :meth:`call` bounds it."""

    def call(self, context: Any, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call ``obj``, which a template has by any way, after what it gets was counted."""
        budget: Budget = context.budget
        budget.call()
        try:
            for value in (*args, *(v for k, v in kwargs.items() if k[:1] != "_")):
                weight = budget.weigh(value)
                if not isinstance(value, str):
                    budget.work(weight)
            if isinstance(getattr(obj, "__self__", None), str | list | tuple | dict):
                kwargs.pop("_loop_vars", None)
                kwargs.pop("_block_vars", None)
                return budget.made(methods.call(self, budget, obj, args, kwargs))
            return budget.made(super().call(context, obj, *args, **kwargs))
        finally:
            budget.leave()


def finalize(context: Any, value: Any) -> str:
    """The text that a template writes for ``value``."""
    budget: Budget = context.budget
    if not isinstance(value, str):
        value = operators.text_of(budget, value)
    n = len(value)
    if n > 16:
        if context.eval_ctx.autoescape:
            n *= 1 + operators.MARKUP_GROWTH
        budget.text(n, value)
    return value  # type: ignore[no-any-return]


def refuse(message: object) -> None:
    """End the rendering: a template calls it for a conversation that it doesn't accept."""
    raise Refused(str(message)[:2000])


def _no_text(namespace: object) -> str:
    """Raise TypeError: namespaces in namespaces can have texts of any length, and change."""
    raise TypeError("a namespace has no text")


@functools.cache
def environment() -> _Environment:
    """The environment of all templates. It holds nothing of any template."""
    from jinja2 import compiler, ext, runtime, sandbox
    from jinja2.utils import pass_context
    extension = type("Counting", (_Extension, ext.Extension), {})
    bases = (_Environment, sandbox.ImmutableSandboxedEnvironment)
    env = type("Environment", bases, {})(
        trim_blocks=True, lstrip_blocks=True, optimized=False, finalize=pass_context(finalize),
        extensions=["jinja2.ext.loopcontrols", extension], cache_size=0)
    env.context_class = type("CountingContext", (_Context, runtime.Context), {})
    env.code_generator_class = type("Generator", (_Generator, compiler.CodeGenerator), {})
    env.filters = {name: filters.counted_filter(name, env.filters[name]) for name in filters.PLAIN}
    env.filters.update(filters.OPERATIONS, sum=filters.total, tojson=filters.to_json)
    for function in env.filters.values():
        pass_context(function)
    env.tests = {name: pass_context(filters.counted_test(test)) if name in filters.COMPARING
                 else test for name, test in env.tests.items()}
    env.globals = {name: env.globals[name]
                   for name in ("range", "dict", "cycler", "joiner")}
    env.globals.update(namespace=env.namespace, raise_exception=refuse)
    return env  # type: ignore[no-any-return]


class Compiled:
    """A compiled template. Threads may share it.

    Raises :class:`LimitExceeded` for a template that is too large, and what jinja2 and Python raise
    for one that is malformed.
    """

    def __init__(self, source: str) -> None:
        if len(source) > MAX_CHARS:
            raise LimitExceeded("is too large", f"up to {MAX_CHARS} characters are read")
        env = environment()
        tree = env.parse(source)
        check(tree)
        rewrite(tree)
        code = env.compile(tree, filename=FILENAME)
        self._template = env.template_class.from_code(env, code, env.make_globals(None))

    def render(self, budget: Budget, variables: Mapping[str, Any]) -> str:
        """The text of the template with these ``variables``. Raises what goes wrong as it is."""
        context = self._template.new_context({**variables, BUDGET: budget})
        return "".join(self._template.root_render_func(context))

    def line_of(self, line: int) -> int:
        """The line of the template from which a line of its compiled code comes."""
        return self._template.get_corresponding_lineno(line)


@functools.lru_cache(maxsize=32)
def compiled(source: str) -> Compiled:
    """The compiled form of a template. The last ones are kept, so that none is compiled twice."""
    return Compiled(source)
