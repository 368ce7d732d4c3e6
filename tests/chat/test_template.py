"""Templates: the golden renderings, and hostile ones that are stopped."""

import base64
import json
import time
import tracemalloc
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from junto.chat.template import render
from junto.errors import TextError
from junto.formats.gguf import read_gguf
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
    "a long source": "a" * 200_001,
    "a number of many bits": "{{ 2 ** 100000000 }}",
    "many bits at once": "{{ (2 ** 4000) * (2 ** 4000) }}",
    "bytes of a number": "{{ (1).to_bytes(10000000000, 'big') }}",
    "a wide fraction": "{{ '%.1000000000f' % 1.0 }}",
    "a row of fields": "{{ ('{0:>9999}' * 50000).format(1) }}",
    "a row of fields by %": "{{ ('%(a)9999d' * 50000) % {'a': 1} }}",
    "a long list": "{{ [0] * 10**10 }}",
    "long lists at once": "{{ [" + "[0] * 900000, " * 99 + "]|length }}",
    "long texts at once": "{{ [" + "'a' * 7000000, " * 99 + "]|length }}",
    "a list in a list in a list": (
        "{% set n = namespace(x=[]) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}"
        "{{ n.x|tojson }}"
    ),
    "a macro that calls itself": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "many words": "{{ ('a ' * 3000000)|title }}",
    "sorting again and again": (
        "{% for i in range(99999) %}{% set x = range(99999)|sort(reverse=true) %}{% endfor %}"
    ),
    "searching again and again": (
        "{% set a = 'a' * 7000000 %}{% for i in range(99999) %}{% if 'b' in a %}{% endif %}"
        "{% endfor %}"
    ),
    "cutting again and again": (
        "{% set a = 'a ' * 3000000 %}{% for i in range(99999) %}{% set x = a.split(' ') %}"
        "{% endfor %}"
    ),
    "a regular expression": "{{ ('a' * 99999) is match('(a+)+$') }}",
    "letters in a list": "{% for i in range(999) %}{{ ('a' * 7000000)|list|length }}{% endfor %}",
    "slices of slices": (
        "{% set a = 'a' * 7000000 %}{% for i in range(99999) %}{% set b = a[1:] %}{% endfor %}"
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_template_is_stopped_in_one_line(name: str) -> None:
    start = time.perf_counter()
    with pytest.raises(TextError, match=r"^chat template") as error:
        render(HOSTILE[name], [], timeout_s=0.5)
    assert "\n" not in str(error.value)
    assert time.perf_counter() - start < 10, "half a second, and one operation after it"


@pytest.mark.parametrize(
    "name", ["a row of fields", "a row of fields by %", "long lists at once", "long texts at once"]
)
def test_hostile_template_is_stopped_in_bounded_memory(name: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TextError):
            render(HOSTILE[name], [])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 600 << 20


SANDBOX_ROWS = [
    row
    for row in map(json.loads, find("gguf/malformed.jsonl").read_text().splitlines())
    if row["expect"] == "sandbox"
]


def test_there_are_two_files_with_a_hostile_template() -> None:
    assert [row["id"] for row in SANDBOX_ROWS] == ["m_template_ssti", "m_template_loop"]


@pytest.mark.parametrize("row", SANDBOX_ROWS, ids=lambda row: row["id"])
def test_template_of_a_malformed_file_is_stopped(row: dict[str, Any], tmp_path: Path) -> None:
    """The file is sound, so it is read; only the rendering is refused."""
    path = tmp_path / "hostile.gguf"
    path.write_bytes(base64.b64decode(row["b64"]))
    template = read_gguf(path).metadata["tokenizer.chat_template"]
    assert isinstance(template, str)
    with pytest.raises(TextError, match=r"^chat template [^\n]+$"):
        render(template, [{"role": "user", "content": "a"}])


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
        (
            "{{ 'a bc'|title }}{{ '%5d|%-3s|' % (7, 'a') }}{{ '{:>4}'.format('b') }}",
            "A Bc    7|a  |   b",
        ),
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
