"""A chat without its terminal, on a scripted model whose cache is real."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from junto.cli.chat.session import Session
from junto.cli.chat.settings import Settings
from junto.errors import RequestError, TextError
from tests.chat.toy_dialogue import END, TINY, ToyDialogue
from tests.scripted_model import scripted_model


def echo(seen: Sequence[int]) -> int:
    """Say the last letter in capitals, and stop after it."""
    return seen[-1] - 32 if chr(seen[-1]).islower() else END


def session(n_ctx: int = 100, seed: int | None = None) -> Session:
    model = scripted_model(TINY, echo, n_ctx=n_ctx)
    model.text.dialogue = ToyDialogue()
    return Session(model, Settings(temperature=0, seed=seed))


def turn(chat: Session, text: str) -> str:
    reply = chat.ask(text)
    list(reply)
    chat.keep(reply, interrupted=False)
    return str(chat.messages[-1]["content"])


def test_turns_build_on_each_other_and_only_the_new_text_is_read() -> None:
    chat = session()
    assert [turn(chat, "ab"), turn(chat, "cd")] == ["B", "D"]
    assert [m["content"] for m in chat.messages] == ["ab", "B", "cd", "D"]
    assert chat.seat.n_kept == 3
    assert chat.n_tokens == 6


def test_asking_again_replaces_the_answer() -> None:
    chat = session()
    turn(chat, "ab")
    reply = chat.ask_again("xy")
    list(reply)
    chat.keep(reply, interrupted=False)
    assert [m["content"] for m in chat.messages] == ["xy", "Y"]
    with pytest.raises(RequestError, match="nothing was asked yet"):
        session().ask_again()


def test_undo_restores_what_stood_before() -> None:
    chat = session(n_ctx=8)
    turn(chat, "ab")
    before = list(chat.messages)
    with pytest.raises(RequestError, match="the context is 8"):
        chat.ask("much too long")
    chat.undo()
    assert chat.messages == before
    chat.ask_again()
    chat.undo()
    assert chat.messages == before


def test_an_interrupted_answer_stays_and_is_marked_in_the_file_alone(tmp_path: Path) -> None:
    chat = session()
    reply = chat.ask("ab")
    next(reply)
    reply.close()
    chat.keep(reply, interrupted=True)
    assert chat.messages[-1] == {"role": "assistant", "content": "B", "interrupted": True}
    assert turn(chat, "cd") == "D"
    chat.system = "s"
    chat.save(tmp_path / "c.json")
    other = session()
    other.load(tmp_path / "c.json")
    assert (other.system, other.messages) == ("s", chat.messages)


def test_a_fixed_seed_gives_another_answer_when_asked_again() -> None:
    chat = session(seed=5)
    asked: list[int | None] = []
    whole = chat.model.chat

    def watched(*args: object, **options: object) -> object:
        asked.append(options["seed"])  # type: ignore[arg-type]
        return whole(*args, **options)  # type: ignore[arg-type]

    chat.model.chat = watched  # type: ignore[method-assign, assignment]
    turn(chat, "ab")
    for _ in range(2):
        reply = chat.ask_again()
        list(reply)
        chat.keep(reply, interrupted=False)
    turn(chat, "cd")
    assert asked == [5, 6, 7, 5]


def test_bytes_that_are_no_text_are_refused() -> None:
    chat = session()
    with pytest.raises(TextError, match="not UTF-8"):
        chat.ask("a\udcff")
    assert chat.messages == []


def test_clear_frees_the_seat() -> None:
    chat = session()
    turn(chat, "ab")
    chat.clear()
    assert chat.messages == []
    assert chat.model.runner.cache.open() == 0
