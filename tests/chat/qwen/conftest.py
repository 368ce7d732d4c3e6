"""Dialogues, made once."""

import pytest

from junto.chat.qwen import Qwen
from junto.chat.tokenizer import Tokenizer
from tests.chat.qwen.answers import tiny_qwen_tokenizer


@pytest.fixture(scope="session")
def tiny() -> Tokenizer:
    return tiny_qwen_tokenizer()


@pytest.fixture(scope="session")
def tiny_qwen(tiny: Tokenizer) -> Qwen:
    return Qwen(tiny)


@pytest.fixture(scope="session")
def real_qwen(qwen35: Tokenizer) -> Qwen:
    return Qwen(qwen35)
