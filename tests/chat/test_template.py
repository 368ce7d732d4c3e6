"""Templates: the golden renderings, and hostile ones that are stopped."""

import json
import time
from datetime import datetime
from typing import Any

import pytest

from junto.chat.template import render
from junto.errors import TextError
from tests.data_dir import find

GOLDEN_DAY = datetime(2025, 6, 28)
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in find("templates/golden.jsonl").read_text("utf-8").splitlines()
]


def rendered(row: dict[str, Any]) -> str:
    return render(
        find(f"templates/{row['template']}").read_text("utf-8"),
        row["messages"],
        tools=row["tools"],
        add_generation_prompt=row["add_generation_prompt"],
        now=GOLDEN_DAY,
        **row["kwargs"],
    )


def test_there_are_39_renderings() -> None:
    assert len(ROWS) == 39


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['model']}-{row['id']}")
def test_same_text_as_transformers(row: dict[str, Any]) -> None:
    if row.get("error"):
        with pytest.raises(TextError, match=row["error"].split(":")[0]):
            rendered(row)
    else:
        assert rendered(row) == row["rendered"]


HOSTILE = {
    "m_template_ssti": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "m_template_loop": "{% for a in range(999999999) %}{{ 'A'*9999 }}{% endfor %}",
    "python's insides through a global": "{{ cycler.__init__.__globals__ }}",
    "python's insides through a filter": "{{ ''|attr('__class__') }}",
    "nested loops without output": (
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    ),
    "loops whose test drops every pass": (
        "{% for a in range(99999) %}{% for b in range(99999) if b < 0 %}{% endfor %}{% endfor %}"
    ),
    "recursive loops": (
        "{% for a in range(999) recursive %}{% if loop.depth < 5 %}{{ loop(range(999)) }}"
        "{% endif %}{% endfor %}"
    ),
    "macros that call themselves twice": (
        "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(99) }}"
    ),
    "a block that calls itself": "{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}",
    "a long text": "{{ 'A' * 10**10 }}",
    "much output": "{% for a in range(99999) %}{{ 'A' * 9999 }}{% endfor %}",
    "a huge number": "{{ 10 ** (10 ** 10) }}",
    "squares of squares": (
        "{% set n = namespace(x=9) %}{% for i in range(99) %}{% set n.x = n.x * n.x %}{% endfor %}"
    ),
    "doubling by +": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}"
        "{% endfor %}"
    ),
    "doubling by ~": (
        "{% set n = namespace(x='a') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}"
        "{% endfor %}"
    ),
    "doubling by JSON": (
        "{% set n = namespace(x='\"') %}{% for i in range(99) %}{% set n.x = n.x|tojson %}"
        "{% endfor %}"
    ),
    "a list in itself twice": (
        "{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}"
        "{% endfor %}{{ n.x }}"
    ),
    "a namespace in itself": "{% set n = namespace() %}{% set n.a = n %}{{ n }}",
    "a wide field": "{{ '{:>1000000000}'.format(1) }}",
    "a wide field by %": "{{ '%1000000000d' % 1 }}",
    "a width given apart": "{{ '{:>{}}'.format(1, 1000000000) }}",
    "padding": "{{ 'a'.center(1000000000) }}",
    "replacing by much": "{% set a = 'a' * 99999 %}{{ a.replace('a', a) }}",
    "the filter for it": "{% set a = 'a' * 99999 %}{{ a|replace('a', a) }}",
    "joining by much": "{{ ('a' * 99999).join(range(99999)) }}",
    "including a file": "{% include 'secrets' %}",
    "broken syntax": "{% if %}",
    "deep syntax": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "a long source": "a" * 1_000_001,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_template_is_stopped_in_one_line(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(TextError, match=r"^chat template") as error:
        render(HOSTILE[name], [], timeout_s=1.0)
    assert "\n" not in str(error.value)
    assert time.perf_counter() - start < 10, "a deadline of 1 s, and one operation after it"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ messages|map(attribute='content')|join(', ') }}", "a, b"),
        ("{% for m in messages if m.role == 'user' %}{{ loop.length }}{% endfor %}", "1"),
        ("{% for m in messages %}{{ m.content }}{% break %}{% endfor %}", "a"),
        ("{{ messages[0]|tojson }}", '{"role": "user", "content": "a"}'),
        ("{{ '<é>'|tojson }}", '"<é>"'),
        ("{{ {'b': [1]}|tojson(indent=2) }}", '{\n  "b": [\n    1\n  ]\n}'),
        ("{{ 'a\nb'|indent(2) }}|{{ 'a\nb'|indent(1, true) }}", "a\n  b| a\n b"),
        ("{{ 'x' ~ 1 ~ none }}", "x1None"),
        ("{{ 'aXbXc'.replace('X', '-', 1) }}{{ 'XX'|replace('X', 'y') }}", "a-bXcyy"),
        ("{{ '%s is %d' % ('a', 3) }}{{ ' {} {{}}'.format('b') }}", "a is 3 b {}"),
        ("{{ ' a '|trim }}{{ 'b\n'.rstrip('\n') }}", "ab"),
        ("{{ 2 ** 10 }}{{ [1] + [2] }}{{ '-' * 3 }}", "1024[1, 2]---"),
        ("{% with a = 1 %}{{ a }}{% endwith %}{% set b %}x{% endset %}{{ b }}", "1x"),
        ("{{ strftime_now('%d %b %Y') }}", "28 Jun 2025"),
        ("{{ missing is defined }}{{ tools is none }}{{ extra }}", "FalseTrue7"),
        ("  {% if true %}\n  a\n  {% endif %}\n", "  a\n"),
    ],
)
def test_what_templates_use_works(template: str, text: str) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert render(template, messages, now=GOLDEN_DAY, extra=7) == text


def test_a_template_can_refuse_a_conversation() -> None:
    with pytest.raises(TextError, match="refuses the conversation: no system messages, please"):
        render("{{ raise_exception('no system\nmessages, please') }}", [])


def test_messages_are_not_changed() -> None:
    messages = [{"role": "assistant", "content": "a", "reasoning_content": "r"}]
    assert render("{{ messages[0].thinking }}", messages) == "r"
    assert messages == [{"role": "assistant", "content": "a", "reasoning_content": "r"}]


def test_a_long_conversation_renders_well_within_the_bounds() -> None:
    template = find("templates/openai-gpt-oss-120b.jinja").read_text("utf-8")
    messages = [
        {"role": role, "content": "word " * 200}
        for _ in range(500)
        for role in ("user", "assistant")
    ]
    assert len(render(template, messages, timeout_s=30)) > 1_000_000
