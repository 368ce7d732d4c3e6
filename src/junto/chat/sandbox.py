"""A Jinja2 environment in which a hostile template can neither escape, nor run long, nor grow.

The sandbox of Jinja2 stops access to Python's insides. On top of it the syntax tree is changed so
that every loop pass, macro and block counts a step and every value that is kept is weighed; what
can make something long out of something short is measured or not offered. Knows no chat.

Texts carry their provenance (see `provenance`). What the template's source says is its own:
literals are marked, and of what the compiled template yields, only its data is a plain `str`. In
values it is the other way round: a plain `str` has come from outside, or out of an operation
without tracking.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from jinja2 import nodes, pass_context
from jinja2.filters import do_title
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from junto.chat.bounds import (
    BUDGET,
    Exceeded,
    check_braces,
    check_percent,
    check_power,
    check_product,
    check_sum,
    joined,
    replaced,
    trimmed,
    weighed,
)
from junto.chat.provenance import Traced, concatenated, own, shown

T = TypeVar("T")

_MAX_CHARS_TITLE = 100_000

# What chat templates use. Left out: what reaches attributes by name (attr), what pads, repeats or
# adds up (batch, center, format, round, slice, sum, wordwrap, xmlattr), and what is random.
# fmt: off
_FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float",
    "groupby", "int", "items", "last", "length", "list", "lower", "map", "max", "min", "reject",
    "rejectattr", "reverse", "safe", "select", "selectattr", "sort", "string", "unique", "upper",
    "wordcount",
)
_TEXT_METHODS = frozenset((
    "capitalize", "casefold", "count", "endswith", "find", "format", "format_map", "index",
    "isalnum", "isalpha", "isdecimal", "isdigit", "islower", "isnumeric", "isspace", "istitle",
    "isupper", "join", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace",
    "rfind", "rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith",
    "strip", "swapcase", "title", "upper",
))
# fmt: on
_OPERATORS: Mapping[str, Callable[[object, object], None]] = {
    "*": check_product,
    "**": check_power,
    "+": check_sum,
    "%": check_percent,
}


# Filters that take the context are never evaluated at compile time, when there is no budget.
@pass_context
def _step(_: Context, value: T) -> T:
    BUDGET.get().step()
    return value


@pass_context
def _weighed(_: Context, value: T) -> T:
    return weighed(value)


@pass_context
def _own(_: Context, literal: str) -> Traced:
    return own(literal)


@pass_context
def _shown(_: Context, value: object) -> Traced:
    return shown(weighed(value))


@pass_context
def _concat(_: Context, parts: list[object]) -> Traced:
    return joined("", parts)


@pass_context
def _replace(_: Context, text: object, old: str, new: str, count: int | None = None) -> str:
    return replaced(str(text), old, new, -1 if count is None else count)


@pass_context
def _join(context: Context, parts: Iterable[object], d: str = "", attribute: Any = None) -> str:
    if attribute is not None:
        parts = [context.environment.getitem(part, attribute) for part in parts]
    return joined(str(d), parts)


@pass_context
def _trim(_: Context, text: object, chars: str | None = None) -> str:
    return trimmed(str(text), chars)


@pass_context
def _title(_: Context, text: object) -> str:
    if len(str(text)) > _MAX_CHARS_TITLE:  # Jinja2 cuts it into words first
        raise Exceeded(f"it capitalizes more than {_MAX_CHARS_TITLE} characters")
    return do_title(str(text))


@pass_context
def _indent(
    _: Context, s: object, width: int | str = 4, first: bool = False, blank: bool = False
) -> str:
    lead = width if isinstance(width, str) else " " * min(width, 100)
    lines = str(s).split("\n")
    BUDGET.get().copy(len(str(s)) + len(lead) * len(lines))
    rest = [lead + line if line or blank else line for line in lines[1:]]
    return "\n".join([lead + lines[0] if first else lines[0], *rest])


@pass_context
def _tojson(
    _: Context,
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Hugging Face templates expect it: nothing escaped for HTML, letters as they are."""
    return json.dumps(
        weighed(value),
        ensure_ascii=ensure_ascii,
        indent=None if indent is None else min(indent, 16),
        separators=separators,
        sort_keys=sort_keys,
    )


# Names with a blank cannot be written in a template: only the changed syntax tree reaches them.
_OWN_FILTERS: Mapping[str, Callable[..., Any]] = {
    "one step": _step,
    "is weighed": _weighed,
    "own literal": _own,
    "as text": _shown,
    "in one": _concat,
    "replace": _replace,
    "join": _join,
    "trim": _trim,
    "title": _title,
    "indent": _indent,
    "tojson": _tojson,
}


def _filtered(expression: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(expression, name, [], [], None, None, lineno=expression.lineno)


def _counted(body: list[nodes.Node], lineno: int) -> list[nodes.Node]:
    step = _filtered(nodes.Const(None, lineno=lineno), "one step")
    return [nodes.ExprStmt(step, lineno=lineno), *body]


class _Bounds(NodeTransformer):
    """Puts steps into whatever can repeat and weighs whatever is kept."""

    def visit_For(self, node: nodes.For) -> nodes.Node:
        self.generic_visit(node)
        node.iter = _filtered(node.iter, "is weighed")
        node.body = _counted(node.body, node.lineno)
        if node.test is not None:  # passes that the test drops count too
            passed = _filtered(nodes.Const(True, lineno=node.lineno), "one step")
            node.test = nodes.And(passed, node.test, lineno=node.lineno)
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        self.generic_visit(node)
        node.body = _counted(node.body, node.lineno)
        return node

    visit_CallBlock = visit_Macro
    visit_Block = visit_Macro

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:
        self.generic_visit(node)
        node.filter = _filtered(node.filter, "as text")
        return node

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        return _filtered(node, "own literal") if isinstance(node.value, str) else node

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        if isinstance(node.arg, nodes.Const):  # a key, not a text
            node.node = self.visit(node.node)
            return node
        return self.generic_visit(node)

    def visit_Assign(self, node: nodes.Assign) -> nodes.Node:
        self.generic_visit(node)
        node.node = _filtered(node.node, "is weighed")
        return node

    def visit_With(self, node: nodes.With) -> nodes.Node:
        self.generic_visit(node)
        node.values = [_filtered(value, "is weighed") for value in node.values]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _filtered(nodes.List(node.nodes, lineno=node.lineno), "in one")


def _finalized(value: object) -> Traced:
    return shown(weighed(value))


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox with bounds; a rendering needs a `Budget` in `BUDGET`."""

    intercepted_binops = frozenset(_OPERATORS)

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols"],
            optimized=False,
            finalize=_finalized,
        )
        self.filters = {name: self.filters[name] for name in _FILTERS} | dict(_OWN_FILTERS)
        del self.globals["lipsum"]

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Bounds().visit(super()._parse(source, name, filename))
        return tree

    @staticmethod
    def concat(pieces: Iterable[str]) -> Traced:
        """What a compiled template yields, in one text; its data are plain texts, values never."""
        return concatenated(own(piece) if type(piece) is str else piece for piece in pieces)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Measure what the operator would make, then apply it."""
        _OPERATORS[operator](left, right)
        if operator == "+" and isinstance(left, str) and isinstance(right, str):
            return concatenated([left, right])
        return super().call_binop(context, operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Measure what a method of a text would make, then call it."""
        named = {key: kwargs[key] for key in kwargs if key not in ("_loop_vars", "_block_vars")}
        weighed([*args, *named.values()])
        pattern = getattr(getattr(__obj, "__wrapped__", None), "__self__", None)
        if isinstance(pattern, str):
            check_braces(pattern, [*args, *named.values()])
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, int | float | bytes):
            raise Exceeded("methods of numbers are not offered to templates")
        if isinstance(owner, str):
            result = _call_text_method(owner, __obj.__name__, args, named)
        else:
            result = super().call(__context, __obj, *args, **kwargs)
        # A call block yields what its call gives as it stands.
        return shown(weighed(result)) if "caller" in kwargs else result


def _call_text_method(text: str, name: str, args: Any, kwargs: Any) -> Any:
    if name not in _TEXT_METHODS:
        raise Exceeded(f"the method '{name}' of texts is not offered to templates")
    if name == "replace":
        return replaced(text, *args, **kwargs)
    if name == "join":
        return joined(text, *args)
    if name.endswith("strip") and args and args[0] is not None and len(args[0]) > 100:
        raise Exceeded("it strips more than 100 different characters")
    result = getattr(text, name)(*args, **kwargs)
    # What was found in a text is part of it, though Python may hand back the literal it looked for.
    return tuple(map(str.__str__, result)) if isinstance(result, tuple) else result
