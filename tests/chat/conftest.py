"""Real tokenizers, loaded once."""

import pytest

from junto.chat.tokenizer import Tokenizer
from tests.chat.vocabularies import real_metadata, unpacked

TmpPathFactory = pytest.TempPathFactory


def _from_gguf(relative: str, factory: TmpPathFactory) -> Tokenizer:
    return Tokenizer.from_gguf(real_metadata(relative, factory.mktemp("gguf")), relative)


@pytest.fixture(scope="session")
def qwen35(tmp_path_factory: TmpPathFactory) -> Tokenizer:
    return _from_gguf("tokenizers/qwen35moe-vocab.gguf.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def gpt_oss(tmp_path_factory: TmpPathFactory) -> Tokenizer:
    return _from_gguf("tokenizers/gpt-oss-vocab.gguf.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: TmpPathFactory) -> Tokenizer:
    return _from_gguf("gguf/smollm2-135m-q4_1.header.gguf.xz", tmp_path_factory)


@pytest.fixture(scope="session")
def qwen35_file(tmp_path_factory: TmpPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("qwen35")
    return Tokenizer.from_file(unpacked("tokenizers/qwen35.tokenizer.json.xz", folder))


@pytest.fixture(scope="session")
def gpt_oss_file(tmp_path_factory: TmpPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("gpt_oss")
    return Tokenizer.from_file(unpacked("tokenizers/gpt-oss.tokenizer.json.xz", folder))
