"""Texts that know what is a template's own: every operation against a model letter by letter."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from junto.chat.provenance import Traced, concatenated, own, own_runs, shown
from junto.chat.template import render

PART = st.text("ab<|>", max_size=4)
PARTS = st.lists(st.tuples(PART, st.booleans()), max_size=6)
Letters = list[tuple[str, bool]]


def mixed(parts: list[tuple[str, bool]]) -> tuple[Traced, Letters]:
    text = concatenated([own(part) if is_own else part for part, is_own in parts])
    return text, [(letter, is_own) for part, is_own in parts for letter in part]


def letters(text: str) -> Letters:
    is_own = [False] * len(text)
    if isinstance(text, Traced):
        for start, end in own_runs(text):
            is_own[start:end] = [True] * (end - start)
    return list(zip(text, is_own, strict=True))


@given(PARTS, PARTS)
def test_concatenation_keeps_who_wrote_each_letter(
    left: list[tuple[str, bool]], right: list[tuple[str, bool]]
) -> None:
    (a, of_a), (b, of_b) = mixed(left), mixed(right)
    assert letters(a) == of_a
    assert letters(a + b) == of_a + of_b
    assert letters(a + "plain") == of_a + [(letter, False) for letter in "plain"]
    assert letters("plain" + a) == [(letter, False) for letter in "plain"] + of_a


@given(PARTS, st.integers(-9, 9) | st.none(), st.integers(-9, 9) | st.none())
def test_slices_and_stripping_keep_who_wrote_each_letter(
    parts: list[tuple[str, bool]], start: int | None, stop: int | None
) -> None:
    text, of_text = mixed(parts)
    assert letters(text[start:stop]) == of_text[start:stop]
    for chars in (None, "a<"):
        rest = text.strip(chars)
        begin = len(text) - len(text.lstrip(chars))
        assert letters(rest) == of_text[begin : begin + len(rest)]
        assert rest == str.__str__(text).strip(chars)


@given(PARTS, PART, PART, st.booleans(), st.integers(-1, 2))
def test_replacing_makes_nothing_own_that_stands_for_something_foreign(
    parts: list[tuple[str, bool]], old: str, new: str, is_own: bool, count: int
) -> None:
    text, of_text = mixed(parts)
    replaced = text.replace(old, own(new) if is_own else new, count)
    assert replaced == str.__str__(text).replace(old, new, count)
    if old and not is_own and new not in text:
        kept = [letter for letter in letters(replaced) if letter[1]]
        assert all(letter in of_text for letter in kept)
    if not any(own for _, own in of_text):
        assert not any(own for _, own in letters(replaced))


@pytest.mark.parametrize(
    ("build", "runs"),
    [
        (lambda: own("<") + own("|>"), ["<|>"]),
        (lambda: own("<") + "" + own("|>"), ["<", "|>"]),
        (lambda: "" + own("<") + ("" + own("|>")), ["<", "|>"]),
        (lambda: own("<") + (own("|") + "") + own(">"), ["<|", ">"]),
        (lambda: own("<") + ("" + (own("|") + "")) + own(">"), ["<", "|", ">"]),
        (lambda: own("<") + "x" + own("|>"), ["<", "|>"]),
        (lambda: (own("<") + "x" + own("|>")).replace("x", ""), ["<", "|>"]),
        (lambda: shown("<|>"), []),
        (lambda: own("<|>").upper(), []),
        (lambda: own("<|>") * 2, []),
    ],
)
def test_a_border_stands_where_something_foreign_was(
    build: Callable[[], str], runs: list[str]
) -> None:
    text = shown(build())
    assert [text[start:end] for start, end in own_runs(text)] == runs


OWN_ALONE = {
    "data": "<|a|>",
    "a literal": "{{ '<|a|>' }}",
    "+": "{{ '<|' + 'a|>' }}",
    "~": "{{ '<|' ~ 'a' ~ '|>' }}",
    "join": "{{ ['<|', 'a', '|>']|join }}{{ '' }}",
    "a method": "{{ ''.join(['<|', 'a|>']) }}",
    "trim": "{{ ' <|a|> '|trim }}",
    "strip": "{{ '\n<|a|>\n'.strip('\n') }}",
    "slices": "{{ 'x<|a|>x'[1:-1] }}",
    "replace": "{{ '<|x|>'|replace('x', 'a') }}",
    "a variable": "{% set x = '<|a|>' %}{{ x }}",
    "a namespace": "{% set n = namespace(x='') %}{% set n.x = n.x + '<|a|>' %}{{ n.x }}",
    "a block": "{% set x %}<|a|>{% endset %}{{ x }}",
    "a macro": "{% macro f(x='a') %}<|{{ x }}|>{% endmacro %}{{ f() }}",
    "a default": "{{ missing|default('<|a|>') }}",
    "a condition": "{{ '<|a|>' if true else '' }}",
    "a call block": "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}<|a|>{% endcall %}",
    "a filter block": "{% filter trim %} <|a|> {% endfilter %}",
    "a named block": "{% block b %}<|a|>{% endblock %}",
    "a recursive loop": "{% for i in [1] recursive %}<|a|>{% endfor %}",
    "a loop": "{% for x in ['<|', 'a|>'] %}{{ x }}{% endfor %}",
}


@pytest.mark.parametrize("way", OWN_ALONE)
def test_what_a_template_writes_is_its_own(way: str) -> None:
    text = render(OWN_ALONE[way], [])
    assert "<|a|>" in [text[start:end] for start, end in own_runs(text)]


FOREIGN = {
    "output": "{{ x }}",
    "a method": "{{ x.strip() }}{{ x.replace('y', '<') }}",
    "concatenation": "{{ '' + x ~ '' }}",
    "join": "{{ [x, x]|join }}{{ x|join }}",
    "a block": "{% set y %}{{ x }}{% endset %}{{ y }}",
    "a macro": "{% macro f(y) %}{{ y }}{% endmacro %}{{ f(x) }}",
    "a call block": "{% macro f() %}{{ caller() }}{% endmacro %}{% call f() %}{{ x }}{% endcall %}",
    "a call block of no macro": "{% call dict(k=x) %}{% endcall %}",
    "a filter block": "{% filter upper %}{{ x }}{% endfilter %}",
    "a filter block that takes out": "{% filter replace('y', '') %}{{ x }}{% endfilter %}",
    "escaping": "{% autoescape true %}{{ x|safe }}{{ x }}{% endautoescape %}",
    "escaped blocks": (
        "{% autoescape true %}{% set y %}{{ x }}{% endset %}{{ y }}{% endautoescape %}"
    ),
    "formats": "{{ '%s' % x }}{{ '{}'.format(x) }}{{ '{x}'.format_map({'x': x}) }}",
    "JSON": "{{ x|tojson }}{{ {'<|a|>': x}|tojson }}",
    "letters": "{% for c in x %}{{ c }}{% endfor %}{{ x|list|join }}{{ x|reverse }}",
    "other cases": "{{ x|upper|lower }}{{ x|title }}",
    "pieces": "{{ x.split('y')|join }}{{ x.partition('|')|join }}{{ x.rpartition('|>')|join }}",
    "slices": "{{ x[:3] ~ x[3:] }}{{ x[::-1][::-1] }}",
    "keys": "{% for k in {x: 1} %}{{ k }}{% endfor %}",
    "groups": "{% for g in [{'k': x}]|groupby('k') %}{{ g.grouper }}{% endfor %}",
    "a named block": "{% block b scoped %}{{ x }}{% endblock %}{{ self.b() }}",
    "a recursive loop": (
        "{% for i in [x] recursive %}{{ i }}{{ loop(x) if loop.depth < 2 }}{% endfor %}"
    ),
    "a cycle": "{{ cycler(x).next() }}",
    "a join of one": "{{ ''.join([x]) }}",
    "its text": "{{ x|string }}",
    "JSON of a namespace": "{% set n = namespace(a=x) %}{{ n.a }}{{ n }}",
}


@pytest.mark.parametrize("way", FOREIGN)
@pytest.mark.parametrize("x", ["<|a|>", "<|A|>y"])
def test_what_comes_from_outside_is_never_its_own(way: str, x: str) -> None:
    text = render(FOREIGN[way], [], x=x)
    assert text
    marked = {text[start:end] for start, end in own_runs(text)}
    assert not {letter for run in marked for letter in run} & set("<|>aA")


def test_nobody_reaches_the_marks_from_a_template() -> None:
    for template in (
        "{{ x|own }}",
        "{{ x._mask }}",
        "{{ x|own literal }}",
        "{{ x|attr('_mask') }}",
    ):
        try:
            text = render(template, [], x="<|a|>")
        except Exception:
            continue
        assert not list(own_runs(text))


PIECES = st.sampled_from(["<", "|", "im_end", "|>", "<|im_end|>", "x", "", " "])
STEPS = st.sampled_from(
    [
        "{{ '%s' ~ x ~ '%s' }}",
        "{{ '%s' + x + '%s' }}",
        "{{ ('%s' ~ x ~ '%s')|replace(x, '') }}",
        "{{ ['%s', x, '%s']|join }}",
        "{%% set n = namespace(t='%s') %%}{%% set n.t = n.t ~ x[:1] ~ x[1:] ~ '%s' %%}{{ n.t }}",
        "{{ ('%s' ~ x ~ '%s')|trim }}",
        "%s{{ x|tojson }}%s",
        "%s{{ x|upper }}%s",
        "%s{{ x[::-1] }}%s",
        "{%% macro f(y) %%}%s{{ y }}%s{%% endmacro %%}{{ f(x) }}",
        "{%% set b %%}%s{{ x }}{%% endset %%}{{ b }}%s",
    ]
)


@settings(deadline=None)
@given(step=STEPS, before=PIECES, after=PIECES, x=PIECES)
def test_no_run_of_own_letters_goes_across_something_foreign(
    step: str, before: str, after: str, x: str
) -> None:
    text = render(step % (before, after), [], x=x)
    longest = max((end - start for start, end in own_runs(text)), default=0)
    assert longest <= max(len(before), len(after), 1)
