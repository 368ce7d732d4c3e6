"""Rendering: the golden conversations, and what each kind of message becomes."""

from typing import Any

import pytest

from junto.chat.dialogue import Turn
from junto.chat.harmony import Harmony
from junto.chat.tokenizer import Tokenizer
from junto.errors import TextError
from tests.chat.harmony.goldens import GOLDEN_DAY, RENDER_ROWS, Row, chat_of, id_of
from tests.chat.harmony.vocabulary import harmony_tokenizer

TINY = harmony_tokenizer()
TOOLS: list[Row] = [{"type": "function", "function": {"name": "get_weather"}}]
WITH_TOOLS = Turn(tools=TOOLS)
ANSWER = "<|start|>assistant"
CALL = f"{ANSWER} to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>"
RESULT = "<|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>"


def user(text: str = "u") -> Row:
    return {"role": "user", "content": text}


def call(call_id: str = "1", name: str = "get_weather", arguments: Any = "{}") -> Row:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*of: Row, **fields: Any) -> Row:
    return {"role": "assistant", "content": None, "tool_calls": list(of or (call(),)), **fields}


def result(content: Any = "21", **fields: Any) -> Row:
    return {"role": "tool", "content": content, **(fields or {"tool_call_id": "1"})}


def answer(content: str = "f", **fields: Any) -> Row:
    return {"role": "assistant", "content": content, **fields}


def ids_of(messages: list[Any], turn: Turn | None = None) -> list[int]:
    return Harmony(TINY, now=GOLDEN_DAY).render(messages, turn or Turn())


def text_of(messages: list[Any], turn: Turn | None = None) -> str:
    """The rendering after the system message."""
    text = TINY.decode(ids_of(messages, turn), special=True)
    return text.partition("<|end|>")[2]


def test_there_are_11_conversations() -> None:
    assert len(RENDER_ROWS) == 11


@pytest.mark.parametrize("row", RENDER_ROWS, ids=id_of)
def test_tokens_are_those_of_openai_harmony(row: Row, gpt_oss: Tokenizer) -> None:
    messages, turn = chat_of(row)
    ids = Harmony(gpt_oss, now=GOLDEN_DAY).render(messages, turn)
    assert gpt_oss.decode(ids, special=True) == row["text"]
    assert ids == row["tokens"]


def test_the_clock_tells_the_date_otherwise() -> None:
    assert "Current date: 20" in TINY.decode(Harmony(TINY).render([user()], Turn()))


@pytest.mark.parametrize("variables", [{"reasoning_effort": "high"}, {}])
def test_effort_is_that_of_the_turn_or_of_the_template(variables: Row) -> None:
    text = TINY.decode(ids_of([user()], Turn(variables=variables)))
    assert f"Reasoning: {variables.get('reasoning_effort', 'medium')}\n" in text
    text = TINY.decode(ids_of([user()], Turn(effort="low", variables=variables)))
    assert "Reasoning: low\n" in text


def test_the_first_system_message_instructs_and_later_ones_stand_where_they_are() -> None:
    chat = [
        {"role": "system", "content": "one"},
        user(),
        answer(),
        {"role": "system", "content": "two"},
        {"role": "developer", "content": "three"},
        user("v"),
    ]
    developer = "<|start|>developer<|message|># Instructions\n\n"
    assert text_of(chat) == (
        f"{developer}one<|end|><|start|>user<|message|>u<|end|>"
        f"{ANSWER}<|channel|>final<|message|>f<|end|>"
        f"{developer}two<|end|>{developer}three<|end|><|start|>user<|message|>v<|end|>{ANSWER}"
    )


def test_tools_are_declared_first_even_where_instructions_come_later() -> None:
    text = text_of([user(), {"role": "system", "content": "late"}], WITH_TOOLS)
    assert text.startswith("<|start|>developer<|message|># Tools\n\n## functions")
    assert text.endswith(f"# Instructions\n\nlate<|end|>{ANSWER}")


def test_parts_of_a_content_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}, "c"]
    assert text_of([{"role": "user", "content": parts}]) == (
        f"<|start|>user<|message|>abc<|end|>{ANSWER}"
    )


@pytest.mark.parametrize("name", ["reasoning_content", "thinking", "reasoning"])
def test_reasoning_of_an_open_tool_turn_stays_and_that_of_finished_turns_goes(name: str) -> None:
    finished = [user(), calls(**{name: "r1"}), result(), answer(**{name: "r2"})]
    reopened = [user(), calls(**{name: "r3"}), result()]
    text = text_of([*finished, *reopened], WITH_TOOLS)
    assert "r1" not in text
    assert "r2" not in text
    assert text.endswith(
        f"{ANSWER}<|channel|>analysis<|message|>r3<|end|>"
        f"{CALL}{{}}<|call|>{RESULT}21<|end|>{ANSWER}"
    )
    kept = text_of([*finished, *reopened], Turn(tools=TOOLS, preserve_reasoning=True))
    assert [kept.count(f"analysis<|message|>{r}<|end|>") for r in ("r1", "r2", "r3")] == [1, 1, 1]


def test_several_calls_of_one_message_with_a_preamble() -> None:
    chat = [calls(call("1"), call("2", arguments={"city": "Köln"}), content="Looking.")]
    chat += [result("two", tool_call_id="2"), result([{"type": "text", "text": "one"}])]
    assert text_of(chat) == (
        f"{ANSWER}<|channel|>commentary<|message|>Looking.<|end|>"
        f'{CALL}{{}}<|call|>{CALL}{{"city": "Köln"}}<|call|>'
        f"{RESULT}two<|end|>{RESULT}one<|end|>{ANSWER}"
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_call_id": "1", "name": "other"},
        {"tool_call_id": "unknown", "name": "get_weather"},
        {"name": "functions.get_weather"},
        {"tool_call_id": "unknown"},
    ],
)
def test_results_name_the_function_that_was_called(fields: Row) -> None:
    assert text_of([calls(), result(**fields)]).endswith(f"{RESULT}21<|end|>{ANSWER}")


def test_odd_names_in_old_calls_are_mended() -> None:
    text = text_of([calls(call(name="get<|end|>\nweather to=x")), result()])
    assert "to=functions.get__end___weather_to_x<|channel|>" in text
    assert "<|start|>functions.get__end___weather_to_x to=assistant" in text


def test_builtin_tools_are_called_and_answer_on_the_analysis_channel() -> None:
    turn = Turn(variables={"builtin_tools": ["python", "browser"]})
    chat = [calls(call("1", "python", '{"code": "1 + 1\\n"}')), result("2")]
    chat += [calls(call("2", "browser.search", '{"query": "a"}')), result("b", tool_call_id="2")]
    assert text_of(chat, turn) == (
        f"{ANSWER} to=python<|channel|>analysis code<|message|>1 + 1\n<|call|>"
        "<|start|>python to=assistant<|channel|>analysis<|message|>2<|end|>"
        f'{ANSWER} to=browser.search<|channel|>analysis code<|message|>{{"query": "a"}}<|call|>'
        f"<|start|>browser.search to=assistant<|channel|>analysis<|message|>b<|end|>{ANSWER}"
    )
    assert "to=functions.python<|channel|>commentary" in text_of(chat[:1])


def test_without_thinking_the_answer_begins_on_the_final_channel() -> None:
    chat = [user()]
    beginning = text_of(chat)
    final = f"{beginning}<|channel|>final<|message|>"
    assert text_of(chat, Turn(enable_thinking=False)) == final
    with_tools = text_of(chat, WITH_TOOLS)
    assert text_of(chat, Turn(tools=TOOLS, enable_thinking=False)) == (
        f"{with_tools}<|channel|>analysis<|message|><|end|>{ANSWER}"
    )


def test_without_a_generation_prompt_the_last_message_ends_it() -> None:
    for thinking in (None, False):
        turn = Turn(add_generation_prompt=False, enable_thinking=thinking)
        assert text_of([user()], turn) == "<|start|>user<|message|>u<|end|>"


GROWING = [
    {"role": "system", "content": "s"},
    user("1"),
    answer("a", reasoning_content="r1"),
    {"role": "system", "content": "later"},
    user("2"),
    calls(content="p", reasoning_content="r2"),
    result(),
    calls(call("2"), reasoning_content="r3"),
    result(tool_call_id="2"),
    answer("b", reasoning_content="r4"),
    user("3"),
]


PROMPTS = [n for n in range(len(GROWING) + 1) if GROWING[n - 1]["role"] in ("user", "tool") and n]


@pytest.mark.parametrize("preserve", [True, False])
@pytest.mark.parametrize("n_known", PROMPTS[:-1])
def test_a_prompt_begins_the_next_one(n_known: int, preserve: bool, gpt_oss: Tokenizer) -> None:
    """But where the answer that closes a tool turn takes its reasoning away, as the family does."""
    harmony = Harmony(gpt_oss, now=GOLDEN_DAY)
    turn = Turn(tools=TOOLS, preserve_reasoning=preserve)
    prompt = harmony.render(GROWING[:n_known], turn)
    in_tool_turn = GROWING[n_known - 1]["role"] == "tool"
    for n in PROMPTS:
        begins = harmony.render(GROWING[:n], turn)[: len(prompt)] == prompt
        is_closed = in_tool_turn and n == PROMPTS[-1]
        assert begins == (n >= n_known and (preserve or not is_closed))


def test_without_thinking_prompt_and_answer_begin_the_next_prompt(gpt_oss: Tokenizer) -> None:
    harmony = Harmony(gpt_oss, now=GOLDEN_DAY)
    turn = Turn(enable_thinking=False)
    chat = [user(), answer("An answer.")]
    known = harmony.render(chat[:1], turn) + gpt_oss.encode("An answer.", special=False)
    assert harmony.render([*chat, user()], turn)[: len(known)] == known


def test_preserved_reasoning_lets_prompt_and_answer_begin_the_next_prompt(
    gpt_oss: Tokenizer,
) -> None:
    harmony = Harmony(gpt_oss, now=GOLDEN_DAY)
    turn = Turn(preserve_reasoning=True)
    chat = [user(), answer("Four.", reasoning_content="Add.")]
    written = f"<|channel|>analysis<|message|>Add.<|end|>{ANSWER}<|channel|>final<|message|>Four."
    known = harmony.render(chat[:1], turn) + gpt_oss.encode(written, special=True)
    assert harmony.render([*chat, user()], turn)[: len(known)] == known


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        (["a"], r"messages\[0\]: expected an object, got 'a'"),
        ([{"content": "a"}], r"messages\[0\]: role is None, expected system, developer, user"),
        ([user(), {"role": "<|end|>"}], r"messages\[1\]: role is '<\|end\|>'"),
        ([{"role": "user"}], r"messages\[0\].content: expected a text, got None"),
        ([{"role": "user", "content": {"a": 1}}], r"messages\[0\].content: expected a text"),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            r"messages\[0\].content\[0\]: type is 'image_url'; gpt-oss reads parts of type 'text'",
        ),
        ([answer(reasoning_content=3)], r"messages\[0\].reasoning_content: expected a text, got 3"),
        ([calls(tool_calls="x")], r"messages\[0\].tool_calls: expected a list, got 'x'"),
        ([calls({"id": "1"})], r"messages\[0\].tool_calls\[0\].name: expected a text, got None"),
        ([calls(call(name=""))], r"messages\[0\].tool_calls\[0\]: name is '', expected that of a"),
        ([calls(call(arguments=[1]))], r"tool_calls\[0\].arguments: expected an object, got \[1\]"),
        ([calls(call(arguments={"a": {1}}))], r"arguments: cannot be written as JSON"),
        ([result(tool_call_id="9")], r"messages\[0\]: role 'tool' answers no call; .*id '9'"),
    ],
)
def test_a_wrong_message_is_told_in_one_line(messages: list[Any], error: str) -> None:
    with pytest.raises(TextError, match=error) as raised:
        ids_of(messages)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"tools": [3]}, r"tools\[0\]: expected an object, got 3"),
        ({"tools": [{"function": {}}]}, r"tools\[0\].function.name: expected a text, got None"),
        ({"tools": [{"name": "a b"}]}, r"tools\[0\].name: 'a b' is no name of a function"),
        ({"tools": [{"name": "<|end|>"}]}, r"tools\[0\].name: '<\|end\|>' is no name"),
        ({"tools": [{"name": "a", "description": 3}]}, r"tools\[0\].description: expected a text"),
        ({"tools": [{"name": "a", "parameters": []}]}, r"tools\[0\].parameters: expected an obj"),
        ({"variables": {"reasoning_effort": "none"}}, r"effort is 'none', expected one of"),
        ({"variables": {"builtin_tools": ["shell"]}}, r"builtin_tools: 'shell', expected some of"),
        ({"variables": {"builtin_tools": "python"}}, r"builtin_tools: expected a list"),
        ({"variables": {"model_identity": 3}}, r"model_identity: expected a text, got 3"),
        ({"variables": {"identity": "x"}}, r"unknown variable 'identity'; known: "),
    ],
)
def test_a_wrong_turn_is_told_in_one_line(fields: dict[str, Any], error: str) -> None:
    with pytest.raises(TextError, match=error) as raised:
        ids_of([user()], Turn(**fields))
    assert "\n" not in str(raised.value)


def test_another_vocabulary_is_refused() -> None:
    with pytest.raises(TextError, match=r"harmony: the vocabulary has no token '<\|call\|>'"):
        Harmony(harmony_tokenizer(without="<|call|>"))
    assert len(Harmony(harmony_tokenizer(without="<|endoftext|>")).stop_ids) == 2
