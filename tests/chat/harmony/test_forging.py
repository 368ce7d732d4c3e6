"""Nobody can forge a control token: whatever texts hold, the marks are those of the renderer."""

import json
from itertools import cycle
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from junto.chat.dialogue import Turn
from junto.chat.harmony import Harmony
from junto.chat.tokenizer import Tokenizer
from tests.chat.harmony.goldens import GOLDEN_DAY
from tests.chat.harmony.vocabulary import (
    MARKS,
    OTHER_CONTROL,
    USER_DEFINED,
    control_counts,
    harmony_tokenizer,
)

TINY = harmony_tokenizer()
TEMPTING = st.lists(
    st.sampled_from(
        [
            *(*MARKS, *OTHER_CONTROL, *USER_DEFINED, "<|", "|>", "<", "é", "\n", '"'),
            *("assistant", " to=functions.f", "system", "}) => any;"),
        ]
    ),
    min_size=1,
    max_size=5,
).map("".join)
HARMLESS = "harmless"


def function(name: str, text: str) -> dict[str, Any]:
    """A tool with a text wherever its schema takes one."""
    inner = {
        "type": "object",
        "title": text,
        "description": text,
        "properties": {
            text: {"type": "string", "enum": [text], "default": text, "description": text},
            "b": {"oneOf": [{"type": "string", "description": text, "default": text}]},
            "c": {"const": text, "examples": [text]},
        },
        "required": [text],
    }
    return {
        "type": "function",
        "function": {"name": name, "description": text, "parameters": inner},
    }


def conversation(texts: list[str]) -> list[dict[str, Any]]:
    """A chat of all roles that holds the texts, one after the other and again, everywhere."""
    given = cycle(texts)

    def call(call_id: str, arguments: object) -> dict[str, Any]:
        function = {"name": next(given) + "f", "arguments": arguments}
        return {"id": call_id, "type": "function", "function": function}

    return [
        {"role": "system", "content": next(given)},
        {"role": "user", "content": next(given), "name": next(given)},
        {
            "role": "assistant",
            "content": next(given),
            "thinking": next(given),
            "tool_calls": [
                call("1", next(given)),
                call("2", {next(given): next(given)}),
                call("3", json.dumps({"a": next(given)})),
            ],
        },
        {"role": "tool", "tool_call_id": "1", "content": next(given)},
        {"role": "tool", "name": next(given) + "f", "content": next(given)},
        {"role": "developer", "content": next(given)},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": next(given)},
                {"type": "text", "text": next(given)},
            ],
        },
        {"role": "assistant", "content": next(given), "reasoning_content": next(given)},
        {"role": "user", "content": next(given)},
    ]


def rendered(tokenizer: Tokenizer, texts: list[str]) -> list[int]:
    turn = Turn(
        tools=[function("f", text) for text in texts],
        preserve_reasoning=True,
        variables={"model_identity": texts[0], "knowledge_cutoff": texts[-1]},
    )
    return Harmony(tokenizer, now=GOLDEN_DAY).render(conversation(texts), turn)


@settings(deadline=None)
@given(st.lists(TEMPTING, min_size=1, max_size=4))
def test_no_text_becomes_a_control_token(texts: list[str]) -> None:
    ids = rendered(TINY, texts)
    honest = rendered(TINY, [HARMLESS] * len(texts))
    assert control_counts(TINY, ids) == control_counts(TINY, honest)
    text = TINY.decode(ids, special=True)
    assert all(tempting in text for tempting in texts)


@settings(deadline=None)
@given(st.lists(TEMPTING, min_size=1, max_size=2), st.data())
def test_no_text_becomes_a_token_that_the_real_vocabulary_adds(
    gpt_oss: Tokenizer, texts: list[str], data: st.DataObject
) -> None:
    added = data.draw(st.sampled_from(sorted(gpt_oss.added_texts)))
    honest = rendered(gpt_oss, [HARMLESS] * len(texts))
    ids = rendered(gpt_oss, [text + added for text in texts])
    assert control_counts(gpt_oss, ids) == control_counts(gpt_oss, honest)


@settings(deadline=None)
@given(TEMPTING, TEMPTING)
def test_parts_side_by_side_do_not_join_to_a_token(first: str, second: str) -> None:
    parts = [{"type": "text", "text": text} for text in (first + "<|e", "nd|>" + second)]
    ids = Harmony(TINY).render([{"role": "user", "content": parts}], Turn())
    assert control_counts(TINY, ids) == {"<|start|>": 3, "<|message|>": 2, "<|end|>": 2}
