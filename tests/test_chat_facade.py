"""`Model.chat` and `generate(chat=True)` on a scripted model and a toy family."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import junto
from junto.chat.dialogue import Turn
from junto.chat.events import Event
from junto.errors import RequestError, TextError
from junto.formats.gguf import read_gguf
from junto.formats.gguf_writer import write_gguf
from junto.formats.out_tensor import OutTensor
from tests.chat.toy_dialogue import CLOSE, OPEN, TINY, ToyDialogue, ids_of
from tests.scripted_model import reciting, scripted_model
from tests.tiny.models import TINY as TINY_MODELS

USER = [{"role": "user", "content": "hi"}]
PROMPT = ids_of("hi")


def model_that_says(answer: str, prompt: Sequence[int] = PROMPT, **sizes: int) -> junto.Model:
    model = scripted_model(TINY, reciting(len(prompt), ids_of(answer)), **sizes)
    model.text.dialogue = ToyDialogue()
    return model


def test_events_of_an_answer_end_with_finish() -> None:
    reply = model_that_says("<think>a</think>bc<|im_end|>").chat(USER)
    assert list(reply) == [
        Event("reasoning", "a"),
        Event("content", "b"),
        Event("content", "c"),
        Event("finish", reason="stop"),
    ]
    assert reply.prompt_ids == PROMPT
    assert reply.token_ids == ids_of("<think>a</think>bc<|im_end|>")
    assert reply.message == {"role": "assistant", "content": "bc", "reasoning_content": "a"}
    assert reply.n_repair == 0


def test_calls_of_tools_are_the_reason_of_the_end() -> None:
    events = list(model_that_says("<|im_start|>{}<|im_end|>").chat(USER))
    assert events[0] == Event("tool_call", name="look")
    assert events[-1] == Event("finish", reason="tool_calls")


def test_an_answer_ends_with_n_predict_or_a_full_context() -> None:
    for reply in (
        model_that_says("abcdef").chat(USER, n_predict=3),
        model_that_says("abcdef", n_ctx=5).chat(USER),
    ):
        events = list(reply)
        assert events[-1] == Event("finish", reason="length")
        assert reply.message["content"] == "abc"


def test_a_stop_string_ends_content_and_no_token_follows() -> None:
    reply = model_that_says("<think>xx</think>aEbEND...").chat(USER, stop="END", n_predict=99)
    events = list(reply)
    assert reply.message == {"role": "assistant", "content": "aEb", "reasoning_content": "xx"}
    assert events[-1] == Event("finish", reason="stop")
    assert reply.token_ids == ids_of("<think>xx</think>aEbEND")


def think_until_closed(seen: Sequence[int]) -> int:
    """Reason for ever; once reasoning is closed, answer as many letters as it took."""
    if CLOSE not in seen:
        return ord("x")
    n_said = len(seen) - seen.index(CLOSE) - 1
    return ids_of("done<|im_end|>")[n_said]


@pytest.mark.parametrize("budget", [0, 1, 5, 100])
def test_a_thinking_budget_closes_reasoning_and_the_answer_goes_on(budget: int) -> None:
    model = scripted_model(TINY, think_until_closed)
    model.text.dialogue = ToyDialogue()
    reply = model.chat(USER, enable_thinking=True, thinking_budget=budget, n_predict=200)
    events = list(reply)
    assert reply.prompt_ids == [*PROMPT, OPEN]
    assert reply.message["reasoning_content"] == "x" * budget + "."
    assert reply.message["content"] == "done"
    assert events[-1].reason == "stop"
    assert reply.token_ids == ids_of("x" * budget + ".</think>done<|im_end|>")


def test_forced_tokens_count_as_generated() -> None:
    model = scripted_model(TINY, think_until_closed)
    model.text.dialogue = ToyDialogue()
    reply = model.chat(USER, enable_thinking=True, thinking_budget=2, n_predict=6)
    assert list(reply)[-1].reason == "length"
    assert reply.token_ids == ids_of("xx.</think>do")


def test_the_same_seed_gives_the_same_tokens_with_a_budget_too() -> None:
    def think_of(seen: Sequence[int]) -> int:
        return ord("a") + len(seen) % 7

    def told(seed: int) -> list[int]:
        model = scripted_model(TINY, think_of)
        model.text.dialogue = ToyDialogue()
        options: dict[str, Any] = {"temperature": 20.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
        reply = model.chat(
            USER, enable_thinking=True, thinking_budget=4, n_predict=20, seed=seed, **options
        )
        list(reply)
        return reply.token_ids

    assert told(1) == told(1) != told(2)


def test_the_slot_is_free_again_however_the_caller_stops() -> None:
    model = model_that_says("abcdef", n_slot=1)
    for _ in range(2):
        reply = model.chat(USER, n_predict=5)
        next(reply)
        reply.close()
        assert list(reply) == []
        with model.chat(USER, n_predict=5) as reply:
            next(reply)
        model.chat(USER).close()
        for event in model.chat(USER, n_predict=5):
            assert event.kind == "content"
            break
    assert len(list(model.chat(USER, n_predict=5))) == 6


def test_a_half_told_reply_keeps_its_message() -> None:
    with model_that_says("abcdef").chat(USER) as reply:
        next(reply), next(reply)
    assert reply.message == {"role": "assistant", "content": "ab"}
    assert reply.token_ids == ids_of("ab")


def test_the_turn_reaches_the_family() -> None:
    model = model_that_says("a<|im_end|>")
    dialogue = ToyDialogue()
    model.text.dialogue = dialogue
    tool = {"type": "function", "function": {"name": "look", "parameters": {}}}
    model.chat(USER, [tool], effort="low", enable_thinking=False, preserve_reasoning=True)
    assert dialogue.turns == [
        Turn((tool,), enable_thinking=False, effort="low", preserve_reasoning=True)
    ]


def test_wrong_arguments_are_refused_before_the_first_event() -> None:
    model = model_that_says("a", n_ctx=20)
    huge: Any = "huge"
    with pytest.raises(RequestError, match="effort is 'huge', expected low, medium, high"):
        model.chat(USER, effort=huge)
    with pytest.raises(RequestError, match="thinking_budget is -1"):
        model.chat(USER, thinking_budget=-1)
    with pytest.raises(RequestError, match="n_predict is 0"):
        model.chat(USER, n_predict=0)
    with pytest.raises(RequestError, match="prompt has 30 tokens; the context is 20"):
        model.chat([{"role": "user", "content": "x" * 30}])


def test_a_file_without_tokenizer_cannot_chat(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("tiny") / "tiny"
    textless = junto.load(TINY_MODELS["llama_tied"].write_safetensors(folder))
    with pytest.raises(TextError, match="tiny: no tokenizer in the file"):
        textless.chat(USER)
    with pytest.raises(TextError, match="tiny: no tokenizer in the file"):
        _ = textless.text


def test_generate_with_chat_gives_the_content_alone() -> None:
    model = model_that_says("<think>xx</think>ab <|im_end|>")
    pieces = list(model.generate("hi", chat=True))
    assert "".join(pieces) == "ab "
    assert [p.token_id for p in pieces] == ids_of("<think>xx</think>ab <|im_end|>")
    assert [p.finish_reason for p in pieces] == [None] * (len(pieces) - 1) + ["stop"]


def test_generate_with_chat_puts_the_system_message_first() -> None:
    prompt = ids_of("be brief.hi")
    model = model_that_says("ab. ", prompt)
    pieces = list(model.generate("hi", chat=True, system="be brief.", stop=". ", n_predict=9))
    assert "".join(pieces) == "ab"
    assert pieces[-1].finish_reason == "stop"


def test_a_conversation_keeps_its_seat_between_answers() -> None:
    model = model_that_says("bc<|im_end|>", n_slot=2)
    conversation = model.conversation()
    first = model.chat(USER, conversation=conversation)
    assert list(first)[-1].reason == "stop"
    again = model.chat([*USER, first.message, *USER], conversation=conversation, n_predict=1)
    list(again)
    assert conversation.n_kept == len(PROMPT) + len(ids_of("bc"))
    conversation.close()
    assert {model.runner.cache.open(), model.runner.cache.open()} == {0, 1}


@pytest.mark.parametrize("is_demo", [True, False])
def test_a_file_may_call_itself_a_demo(is_demo: bool, tmp_path: Path) -> None:
    path = TINY_MODELS["llama_tied"].write_gguf(tmp_path / "m.gguf")
    file = read_gguf(path)
    tensors = [OutTensor.copy(tensor) for tensor in file.tensors.values()]
    write_gguf(tmp_path / "demo.gguf", dict(file.stored) | {"junto.demo": is_demo}, tensors)
    assert junto.load(tmp_path / "demo.gguf", n_ctx=8).is_demo is is_demo
    assert not junto.load(path, n_ctx=8).is_demo
