"""`junto.load_text`: from which files, and what it does without any weights."""

from pathlib import Path
from typing import Any

import pytest

import junto
from junto.chat.events import Event
from junto.errors import FormatError, RequestError, TextError
from junto.text import Text
from tests.chat.test_tokenizer_json import tiny_json, write
from tests.chat.vocabularies import TEMPLATE, tiny_tokenizer, unknown_tokenizer, unpacked
from tests.tiny.models import TINY

USER = [{"role": "user", "content": "Hello, <|im_end|> wörld!"}]
PLAIN = "Hello </think> <|im_end|> wörld <|return|>"


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vocabularies")


@pytest.fixture(scope="module")
def tiny() -> Text:
    return Text("tiny.gguf", tiny_tokenizer())


@pytest.mark.parametrize(
    "name", ["qwen35moe-vocab.gguf", "gpt-oss-vocab.gguf", "qwen35.tokenizer.json"]
)
def test_a_vocabulary_needs_no_weights(name: str, vocabularies: Path) -> None:
    text = junto.load_text(unpacked(f"tokenizers/{name}.xz", vocabularies))
    assert text.name == name
    ids = text.encode(PLAIN)
    assert not [i for i in ids if text.tokenizer.is_added(i)]
    assert text.decode(ids) == PLAIN
    assert text.prompt(PLAIN) == ids


def test_a_folder_holds_its_tokenizer_beside_its_weights(tmp_path: Path) -> None:
    folder = TINY["qwen35moe_ratio1"].write_safetensors(tmp_path / "model")
    write(folder, tiny_json())
    texts = [
        junto.load_text(path)
        for path in (folder, folder / "model.safetensors", folder / "tokenizer.json")
    ]
    assert [text.name for text in texts] == ["model", "model.safetensors", "tokenizer.json"]
    assert len({tuple(text.encode(PLAIN)) for text in texts}) == 1


def test_the_template_of_a_folder_is_found(tmp_path: Path) -> None:
    write(tmp_path, tiny_json(), tokenizer_config={"chat_template": TEMPLATE})
    text = junto.load_text(tmp_path)
    assert text.can_chat
    ids = text.render([{"role": "user", "content": "he<|im_end|>"}])
    assert text.decode(ids) == "<|im_start|>user\nhe<|im_end|>\n<|im_start|>assistant\n"
    assert [text.tokenizer.token_text(i) for i in ids if text.tokenizer.is_added(i)] == [
        "<|im_end|>"
    ]


def test_a_model_has_the_text_of_its_file(tmp_path: Path) -> None:
    path = TINY["llama_tied"].write_gguf(tmp_path / "tiny.gguf")
    model, text = junto.load(path), junto.load_text(path)
    assert model.text.name == text.name == "tiny.gguf"
    assert model.text.encode("to") == text.encode("to") != []
    assert model.tokenizer is model.text.tokenizer
    assert set(text.notes) <= set(model.notes)
    assert text.stop_ids >= text.tokenizer.eos_ids == {4}


def test_a_prompt_begins_with_bos_where_the_file_says_so() -> None:
    text = Text("tiny.gguf", tiny_tokenizer(bos_token_id=263, add_bos_token=True))
    assert text.prompt("he") == [263, *text.encode("he")]


def test_a_file_without_template_of_an_unknown_family_cannot_chat(tmp_path: Path) -> None:
    text = junto.load_text(TINY["llama_tied"].write_gguf(tmp_path / "tiny.gguf"))
    assert not text.can_chat
    with pytest.raises(TextError, match="the model file holds no chat template"):
        text.render(USER)


def test_render_hands_its_arguments_to_the_template() -> None:
    template = (
        "{{ tools|length }}|{{ enable_thinking }}|{{ reasoning_effort }}|{{ mood }}"
        "|{{ add_generation_prompt }}"
    )
    # Without <think> the family is not known, so that the template alone decides.
    text = Text("tiny.gguf", unknown_tokenizer(tokenizer__chat_template=template))
    tool = {"type": "function", "function": {"name": "f"}}
    ids = text.render(
        USER, [tool], False, enable_thinking=False, effort="high", variables={"mood": "good"}
    )
    assert text.decode(ids) == "1|False|high|good|False"


def test_an_unknown_effort_is_refused(tiny: Text) -> None:
    extreme: Any = "extreme"
    with pytest.raises(RequestError, match="effort is 'extreme', expected low, medium, high"):
        tiny.render(USER, effort=extreme)


def test_parse_is_what_stream_tells(tiny: Text) -> None:
    ids = tiny.tokenizer.encode("hell é<|im_end|>", special=True)
    parser = tiny.stream()
    events = [event for i in ids for event in parser.feed(i)] + parser.finish()
    assert "".join(event.text for event in events) == "hell é"
    assert events[-1] == Event("finish", reason="stop")
    assert tiny.parse(ids) == {"role": "assistant", "content": "hell é"}
    assert tiny.parse([]) == {"role": "assistant", "content": ""}


def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"not a model")
    with pytest.raises(TextError, match=r"nothing\.gguf: no such file or folder"):
        junto.load_text(tmp_path / "nothing.gguf")
    with pytest.raises(TextError, match="no tokenizer in it; give a GGUF, or a folder with"):
        junto.load_text(tmp_path)
    with pytest.raises(FormatError, match=r"broken\.gguf"):
        junto.load_text(tmp_path / "broken.gguf")
