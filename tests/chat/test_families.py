"""Families are told by the markup of the vocabulary."""

import pytest

from junto.chat.families import dialogue_of
from junto.chat.harmony import Harmony
from junto.chat.plain import PlainTemplate
from junto.chat.qwen import Qwen
from junto.chat.tokenizer import Tokenizer
from tests.chat.vocabularies import TEMPLATE, tiny_tokenizer, unknown_tokenizer


@pytest.mark.parametrize(
    ("name", "family"), [("qwen35", Qwen), ("gpt_oss", Harmony), ("smollm2", PlainTemplate)]
)
def test_real_vocabularies_have_their_family(
    name: str, family: type, request: pytest.FixtureRequest
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    assert isinstance(dialogue_of(tokenizer), family)


def test_thinking_besides_chatml_makes_it_qwen() -> None:
    assert isinstance(dialogue_of(tiny_tokenizer()), Qwen)
    assert isinstance(dialogue_of(tiny_tokenizer(tokenizer__chat_template=None)), Qwen)


def test_chatml_alone_is_anybodys() -> None:
    assert isinstance(dialogue_of(unknown_tokenizer()), PlainTemplate)


def test_a_template_that_writes_calls_as_text_makes_it_qwen() -> None:
    template = TEMPLATE + "{% if tools %}<tool_call>{% endif %}"
    assert isinstance(dialogue_of(unknown_tokenizer(tokenizer__chat_template=template)), Qwen)
