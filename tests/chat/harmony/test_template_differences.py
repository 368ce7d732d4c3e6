"""The model's own template against this renderer: the same text, but for what is named here.

The template's renderings are those of transformers (tests/data/README.md); docs/harmony.md gives
the reasons for each difference.
"""

from typing import Any

import pytest

from junto.chat.dialogue import Turn
from junto.chat.harmony import Harmony
from junto.chat.tokenizer import Tokenizer
from tests.chat.test_template import GOLDEN_DAY, ROWS

TEMPLATE_ROWS = {row["id"]: row for row in ROWS if row["model"] == "gpt-oss"}
BLANK_LINES_AFTER_INSTRUCTIONS = ("\n\n<|end|>", "<|end|>")
COMMA_AFTER_DEFAULT = ("// default: celsius,\n", "// default: celsius\n")
TYPE_OF_CALL = ("commentary json<|message|>", "commentary <|constrain|>json<|message|>")
RESULT_AS_JSON_STRING = ('"{\\"temp\\": 21}"', '{"temp": 21}')
END_WITHOUT_THINKING = ("<|start|>assistant", "<|start|>assistant<|channel|>final<|message|>")

DIFFERENCES: dict[str, list[tuple[str, str]]] = {
    "user": [],
    "user_nogen": [],
    "nothink": [END_WITHOUT_THINKING],
    "system": [BLANK_LINES_AFTER_INSTRUCTIONS],
    "effort_high": [],
    "multi": [BLANK_LINES_AFTER_INSTRUCTIONS],
    "multi_reasoning": [],
    "tools": [COMMA_AFTER_DEFAULT],
    "tool_call": [COMMA_AFTER_DEFAULT, TYPE_OF_CALL, RESULT_AS_JSON_STRING],
    "tool_done": [COMMA_AFTER_DEFAULT, TYPE_OF_CALL, RESULT_AS_JSON_STRING],
    "unicode": [],
    "injection": [],
}


def rendered(tokenizer: Tokenizer, row: dict[str, Any]) -> str:
    variables = dict(row["kwargs"])
    turn = Turn(
        tools=row["tools"] or (),
        add_generation_prompt=row["add_generation_prompt"],
        enable_thinking=variables.pop("enable_thinking", None),
        variables=variables,
    )
    ids = Harmony(tokenizer, now=GOLDEN_DAY).render(row["messages"], turn)
    return tokenizer.decode(ids, special=True)


def test_every_rendering_is_compared() -> None:
    assert TEMPLATE_ROWS.keys() == {*DIFFERENCES, "content_parts"}


@pytest.mark.parametrize("name", DIFFERENCES)
def test_text_is_that_of_the_template_but_for(name: str, gpt_oss: Tokenizer) -> None:
    row = TEMPLATE_ROWS[name]
    expected = row["rendered"]
    for theirs, ours in DIFFERENCES[name]:
        assert theirs in expected
        expected = expected.replace(theirs, ours)
    assert rendered(gpt_oss, row) == expected


def test_parts_of_a_content_are_read_where_the_template_fails(gpt_oss: Tokenizer) -> None:
    row = TEMPLATE_ROWS["content_parts"]
    assert row["error"]
    assert "<|message|>part one part two<|end|>" in rendered(gpt_oss, row)
