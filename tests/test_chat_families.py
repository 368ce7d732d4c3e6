"""`Model.chat` in the families' own markup, on a scripted model with the real vocabularies."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import junto
from junto.text import Text
from tests.chat.vocabularies import unpacked
from tests.scripted_model import reciting, scripted_model

USER = [{"role": "user", "content": "How many?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"days": {"type": "integer"}}},
    },
}


@dataclass(frozen=True)
class Family:
    """How a family writes what every family can write; answers begin behind the prompt."""

    text: Text
    opening: str
    """What a thinking model writes before its reasoning."""
    closing: str
    """What it writes between reasoning and content."""
    end: str
    call: str
    added_by_budget: str = ""
    """Words that end reasoning when its budget is spent."""

    def ids(self, text: str) -> list[int]:
        return self.text.tokenizer.encode(text, special=True)

    def model_that_says(self, answer: str, prompt: Sequence[int] | None = None) -> junto.Model:
        asked = self.text.render(USER) if prompt is None else prompt
        return scripted_model(self.text.tokenizer, reciting(len(asked), self.ids(answer)))

    def answer(self, reasoning: str, content: str) -> str:
        return f"{self.opening}{reasoning}{self.closing}{content}{self.end}"


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Family]:
    folder = tmp_path_factory.mktemp("vocabularies")

    def text(name: str) -> Text:
        return junto.load_text(unpacked(f"tokenizers/{name}-vocab.gguf.xz", folder))

    return {
        "qwen": Family(
            text("qwen35moe"),
            opening="",
            closing="\n</think>\n\n",
            end="<|im_end|>",
            call=(
                "\n</think>\n\n<tool_call>\n<function=weather>\n<parameter=days>\n3\n</parameter>\n"
                "</function>\n</tool_call><|im_end|>"
            ),
            added_by_budget="\n\nConsidering the limited time by the user, I have to give the "
            "solution based on the thinking directly now.",
        ),
        "harmony": Family(
            text("gpt-oss"),
            opening="<|channel|>analysis<|message|>",
            closing="<|end|><|start|>assistant<|channel|>final<|message|>",
            end="<|return|>",
            call=(
                "<|end|><|start|>assistant<|channel|>commentary to=functions.weather "
                '<|constrain|>json<|message|>{"days": 3}<|call|>'
            ),
        ),
    }


@pytest.fixture(params=["qwen", "harmony"])
def family(families: dict[str, Family], request: pytest.FixtureRequest) -> Family:
    return families[request.param]


def test_reasoning_and_content_come_apart(family: Family) -> None:
    reply = family.model_that_says(family.answer("Count them.", "Seven 👍🏽.")).chat(USER)
    events = list(reply)
    assert reply.message == {
        "role": "assistant",
        "content": "Seven 👍🏽.",
        "reasoning_content": "Count them.",
    }
    assert events[-1].reason == "stop"
    assert reply.n_repair == 0
    assert family.text.parse(reply.token_ids) == reply.message


def test_generate_with_chat_gives_the_answer_alone(family: Family) -> None:
    model = family.model_that_says(family.answer("Count them.", "Seven."))
    assert "".join(model.generate("How many?", chat=True)) == "Seven."


def test_calls_come_with_typed_arguments(family: Family) -> None:
    prompt = family.text.render(USER, [WEATHER])
    model = family.model_that_says(family.opening + "Look." + family.call, prompt)
    reply = model.chat(USER, [WEATHER])
    events = list(reply)
    assert reply.prompt_ids == prompt
    assert events[-1].reason == "tool_calls"
    (call,) = reply.message["tool_calls"]
    assert call["function"]["name"] == "weather"
    assert call["function"]["arguments"].replace(" ", "") == '{"days":3}'
    assert reply.message["content"] == ""


def test_an_answer_cut_anywhere_shows_no_markup(family: Family) -> None:
    answer = family.answer("Count.", "Seven.")
    model = family.model_that_says(answer)
    for n in range(1, len(family.ids(answer))):
        reply = model.chat(USER, n_predict=n)
        assert list(reply)[-1].reason == "length"
        assert "Seven.".startswith(reply.message["content"])
        assert "Count.".startswith(reply.message.get("reasoning_content", ""))


def test_stop_strings_cut_the_content_and_not_the_reasoning(family: Family) -> None:
    answer = family.answer("Seven days.", "It is seven days long.")
    reply = family.model_that_says(answer).chat(USER, stop=["days"], n_predict=100)
    assert list(reply)[-1].reason == "stop"
    assert reply.message["reasoning_content"] == "Seven days."
    assert reply.message["content"] == "It is seven "


@pytest.mark.parametrize("budget", [0, 1, 10])
def test_a_spent_budget_closes_reasoning_in_the_familys_way(family: Family, budget: int) -> None:
    opening, rest = family.ids(family.opening), family.ids("Seven." + family.end)
    closing = family.ids(family.closing)
    mark = next(i for i in reversed(closing) if family.text.tokenizer.is_added(i))
    (word,) = family.ids(" hm")
    prompt = family.text.render(USER)

    def think_until_closed(seen: Sequence[int]) -> int:
        told = seen[len(prompt) :]
        if len(told) < len(opening):
            return opening[len(told)]
        later = told[len(opening) :]
        if mark not in later:
            return word
        n_after = len(later) - later.index(mark) - 1
        tail = closing[len(closing) - closing[::-1].index(mark) :]
        return rest[n_after - len(tail)]

    model = scripted_model(family.text.tokenizer, think_until_closed)
    reply = model.chat(USER, thinking_budget=budget, n_predict=200)
    events = list(reply)
    assert events[-1].reason == "stop"
    assert reply.message["content"] == "Seven."
    assert reply.n_repair == 0
    said = reply.message.get("reasoning_content", "")
    assert said == (" hm" * budget + family.added_by_budget if budget else "")
    assert family.text.parse(reply.token_ids) == reply.message


def test_the_next_prompt_begins_with_this_one_and_its_answer(family: Family) -> None:
    model = family.model_that_says(family.answer("Count them.", "Seven."))
    reply = model.chat(USER, preserve_reasoning=True)
    list(reply)
    more = [*USER, reply.message, {"role": "user", "content": "And now?"}]
    following = model.text.render(more, preserve_reasoning=True)
    # The last token may differ: gpt-oss ends an answer by <|return|>, and by <|end|> in history.
    told = [*reply.prompt_ids, *reply.token_ids[:-1]]
    assert following[: len(told)] == told


def test_finished_reasoning_leaves_the_prompt(family: Family) -> None:
    answer = {"role": "assistant", "content": "Seven.", "reasoning_content": "Count them."}
    more = [*USER, answer, {"role": "user", "content": "And now?"}]
    text = family.text
    assert "Count them." not in text.decode(text.render(more))
    assert "Count them." in text.decode(text.render(more, preserve_reasoning=True))


def test_no_thinking_and_effort_reach_the_prompt(families: dict[str, Family]) -> None:
    qwen, harmony = families["qwen"].text, families["harmony"].text
    assert qwen.decode(qwen.render(USER, enable_thinking=False)).endswith("<think>\n\n</think>\n\n")
    assert "Reasoning: high" in harmony.decode(harmony.render(USER, effort="high"))


@pytest.mark.parametrize(("name", "whose"), [("qwen35", "Qwen3.5"), ("gpt-oss", "gpt-oss")])
def test_a_file_without_template_says_whose_it_takes(
    families: dict[str, Family], name: str, whose: str, tmp_path: Path
) -> None:
    text = junto.load_text(unpacked(f"tokenizers/{name}.tokenizer.json.xz", tmp_path))
    assert text.notes == (
        f"{name}.tokenizer.json: no chat template in the model file; using {whose}'s",
    )
    family = families["qwen" if name == "qwen35" else "harmony"]
    assert text.render(USER) == family.text.render(USER)
