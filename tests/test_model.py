"""The facade: load, logits, generate."""

import json
from pathlib import Path

import numpy as np
import pytest

import junto
from junto.errors import ModelError, RequestError, TextError
from tests.tiny.models import TINY

TINY_LLAMA = TINY["llama_tied"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> junto.Model:
    """A tiny llama from a GGUF that has a vocabulary."""
    return junto.load(TINY_LLAMA.write_gguf(tmp_path_factory.mktemp("tiny") / "tiny.gguf"))


@pytest.fixture(scope="module")
def textless(tmp_path_factory: pytest.TempPathFactory) -> junto.Model:
    """The same weights in safetensors, without a tokenizer."""
    return junto.load(TINY_LLAMA.write_safetensors(tmp_path_factory.mktemp("tiny") / "tiny"))


def test_logits_are_float32_rows_after_each_token(model: junto.Model) -> None:
    logits = model.logits([5, 6, 7])
    assert logits.shape == (3, TINY_LLAMA.n_vocab)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits[:2], model.logits(np.array([5, 6])), atol=1e-5)


def test_logits_of_a_long_prompt_do_not_depend_on_the_step(model: junto.Model) -> None:
    ids = TINY_LLAMA.tokens(700)
    whole = model.logits(ids)
    slot = model.runner.cache.open()
    pieces = [
        model.runner.step([(slot, ids[i : i + 100].tolist())], all_logits=True)
        for i in range(0, 700, 100)
    ]
    model.runner.cache.close(slot)
    np.testing.assert_allclose(whole, np.concatenate(pieces), atol=1e-5 * np.abs(whole).max())


def test_token_ids_need_no_tokenizer(textless: junto.Model) -> None:
    assert textless.tokenizer is None
    pieces = list(textless.generate([1, 2], n_predict=4, temperature=0))
    assert [str(p) for p in pieces] == ["", "", "", ""]
    best = int(np.argmax(textless.logits([1, 2])[-1]))
    assert pieces[0].token_id == best
    assert pieces[-1].finish_reason == "length"


def test_only_text_asks_for_a_tokenizer(textless: junto.Model) -> None:
    with pytest.raises(TextError, match="tiny: no tokenizer in the file; only token ids"):
        textless.generate("text")
    with pytest.raises(TextError, match="no stop strings"):
        textless.generate([1], stop=["x"])


def test_generated_tokens_do_not_depend_on_what_else_runs(model: junto.Model) -> None:
    alone = [p.token_id for p in model.generate([3, 4, 5], n_predict=8, seed=11)]
    other = model.generate([9], n_predict=8, seed=12)
    mixed = []
    for piece in model.generate([3, 4, 5], n_predict=8, seed=11):
        mixed.append(piece.token_id)
        next(other)
    assert mixed == alone
    assert [p.token_id for p in model.generate([3, 4, 5], n_predict=8, seed=12)] != alone


def test_wrong_arguments_are_refused_before_the_first_piece(model: junto.Model) -> None:
    with pytest.raises(RequestError, match="no token ids given"):
        model.logits([])
    with pytest.raises(RequestError, match=f"outside the vocabulary of {TINY_LLAMA.n_vocab}"):
        model.logits([TINY_LLAMA.n_vocab])
    with pytest.raises(RequestError, match="expected a list of whole numbers"):
        model.logits(np.array([0.5]))
    with pytest.raises(RequestError, match="expected at least 1"):
        model.generate([1], n_predict=0)
    with pytest.raises(RequestError, match="needs the chat template"):
        model.generate("text", system="be brief")


def test_every_slot_is_free_after_errors(model: junto.Model) -> None:
    for _ in range(10):
        with pytest.raises(RequestError):
            model.logits([TINY_LLAMA.n_vocab])
    assert len(model.logits([1])) == 1


def test_load_refuses_unknown_backends_kv_and_contexts(tmp_path: Path) -> None:
    path = TINY_LLAMA.write_gguf(tmp_path / "tiny.gguf")
    n_ctx_train = junto.load(path).n_ctx
    with pytest.raises(
        RequestError, match="backend 'gpu' is unknown; this build has: cpu, reference"
    ):
        junto.load(path, backend="gpu")
    for backend in ("reference", "cpu"):
        with pytest.raises(
            RequestError, match="kv 'q3' is unknown; this build has: auto, f32, f16, q8_0, q4_0"
        ):
            junto.load(path, backend=backend, kv="q3")
    with pytest.raises(RequestError, match="n_threads is for 'cpu'"):
        junto.load(path, backend="reference", n_threads=2)
    with pytest.raises(RequestError, match=f"expected 1 to {n_ctx_train:,}"):
        junto.load(path, n_ctx=n_ctx_train + 1)
    assert junto.load(path, kv="f32", n_ctx=77).n_ctx == 77


def test_the_kernels_compute_unless_told_otherwise(tmp_path: Path) -> None:
    path = TINY_LLAMA.write_gguf(tmp_path / "tiny.gguf")
    assert junto.load(path).runner.ops.name == "cpu"
    assert junto.load(path, backend="reference").runner.ops.name == "reference"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.gguf: no such file"):
        junto.load(tmp_path / "nothing.gguf")


def folder_with_tokenizer(folder: Path, n_token: int) -> Path:
    """A tiny model and a tokenizer.json of so many tokens, one letter each."""
    path = TINY["llama_tied"].write_safetensors(folder / "m")
    vocabulary = {chr(0x100 + i): i for i in range(n_token)}
    pre_tokenizer = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    text = json.dumps({"pre_tokenizer": pre_tokenizer, "model": model})
    (path / "tokenizer.json").write_text(text)
    return path


def test_a_tokenizer_with_more_ids_than_the_embedding_has_rows_is_refused(tmp_path: Path) -> None:
    n_row = TINY["llama_tied"].n_vocab
    with pytest.raises(TextError) as raised:
        junto.load(folder_with_tokenizer(tmp_path, n_row + 1))
    assert str(raised.value).endswith(
        f"tokenizer.json: {n_row + 1} tokens for an embedding of {n_row} rows, expected at most as "
        "many; the tokenizer belongs to another model"
    )


@pytest.mark.parametrize("n_missing", [0, 3])
def test_rows_of_an_embedding_without_a_token_are_unused(tmp_path: Path, n_missing: int) -> None:
    """Models pad their embedding; what such a row might generate is no text and no error."""
    n_row = TINY["llama_tied"].n_vocab
    tokenizer = junto.load(folder_with_tokenizer(tmp_path, n_row - n_missing)).tokenizer
    assert tokenizer is not None
    assert tokenizer.n_vocab == n_row
    n_bytes = [len(tokenizer.token_bytes(i)) for i in range(n_row)]
    assert n_bytes.count(0) == n_missing
