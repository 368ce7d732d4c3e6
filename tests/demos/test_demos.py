"""The demonstration models agree with others on text they have not seen, and write sense."""

import hashlib
import os
from collections import Counter
from pathlib import Path
from typing import cast

import pytest

import junto
from junto.formats.gguf import read_gguf
from junto.library import demos
from junto.measure.expert_usage import expert_usage
from tests.demos import held_out
from tests.models.smollm2_run import chunk_losses, perplexity
from tests.models.test_goldens import load_as_llama_cpp
from tools.train_demo.family import FAMILIES, Name
from tools.train_demo.quality import MIN_KNOWN_WORDS, TOPICS, answers, measure, repeated, words

CHECKPOINTS = "JUNTO_DEMO_CHECKPOINTS"
"""A folder of the checkpoints that the files were converted from, where someone has them."""

MIN_BELOW_UNIFORM = 0.25
"""Of the share that each expert would have, the least that one may be left with."""


@pytest.fixture(scope="module", params=demos.NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each model's name."""
    return str(request.param)


@pytest.fixture(scope="module")
def model(name: str) -> junto.Model:
    """The model as `junto run` loads it."""
    return junto.load(demos.path_of(name))


def nll(name: str, of: str) -> list[float]:
    values: list[float] = held_out.golden(name)["nll_per_chunk"][of]
    return values


def test_the_golden_is_of_this_file(name: str) -> None:
    """Otherwise: python -m tests.oracle.demos"""
    digest = hashlib.sha256(demos.path_of(name).read_bytes()).hexdigest()
    assert digest == held_out.golden(name)["file_sha256"]


def test_a_file_is_a_demo_of_mixed_types_and_at_most_6_mb(name: str) -> None:
    file = read_gguf(demos.path_of(name))
    assert file.metadata["junto.demo"] is True
    assert demos.path_of(name).stat().st_size <= 6_000_000
    types = {tensor.type.name for tensor in file.tensors.values()}
    assert len(types - {"F32"}) >= 3
    assert ("MXFP4" in types) == (name == "gpt-oss")


def test_the_reference_equals_llama_cpp_on_the_float32_twin(name: str) -> None:
    """Four chunks; all of them in the slow test below. The twin holds the file's own values."""
    check_twin(name, 4)


@pytest.mark.slow
def test_the_reference_equals_llama_cpp_on_all_of_the_twin(name: str) -> None:
    check_twin(name, 16)


def check_twin(name: str, n_chunk: int) -> None:
    model = load_as_llama_cpp(demos.path_of(name))
    ids = held_out.ids(model, name)[: n_chunk * held_out.N_CHUNK]
    expected = nll(name, "float32_twin")[:n_chunk]
    assert chunk_losses(model, ids) == pytest.approx(expected, abs=1e-4)


def test_perplexity_is_llama_cpp_s_and_that_of_the_float32_checkpoint(
    name: str, model: junto.Model
) -> None:
    """Within 1 % of llama.cpp on the same file; the types cost less than 1 % too (aim: 4 %)."""
    ours = perplexity(chunk_losses(model, held_out.ids(model, name)))
    assert ours == pytest.approx(perplexity(nll(name, "file")), rel=0.01)
    assert ours <= 1.01 * perplexity(nll(name, "transformers"))


def test_the_checkpoint_in_our_reference_equals_transformers(name: str) -> None:
    if CHECKPOINTS not in os.environ:
        pytest.skip(f"needs the checkpoints of training, in the folder that {CHECKPOINTS} names")
    model = junto.load(Path(os.environ[CHECKPOINTS]) / name, backend="reference")
    ids = held_out.ids(junto.load(demos.path_of(name)), name)
    ours = perplexity(chunk_losses(model, ids))
    assert ours == pytest.approx(perplexity(nll(name, "transformers")), rel=1e-3)


def test_answers_are_words_and_do_not_loop(model: junto.Model) -> None:
    """20 seeds of 100 tokens. Their words are compared with the training text where it is."""
    texts = list(answers(model))
    assert len(texts) == 20
    assert [gram for text in texts for gram in repeated(text)] == []
    assert sum(len(words(text)) for text in texts) > 1000


def test_answers_are_about_what_was_asked(model: junto.Model) -> None:
    """Words of the own request's topic come three times as often as those of any other topic."""
    texts = list(answers(model))

    def n_about(shift: int) -> int:
        topics = [TOPICS[(seed + shift) % len(TOPICS)] for seed in range(1, 21)]
        wanted = [set(words(topic)) - {"and", "a"} for topic in topics]
        pairs = zip(texts, wanted, strict=True)
        return sum(not wanted.isdisjoint(words(text)) for text, wanted in pairs)

    assert n_about(0) >= 3 * max(n_about(shift) for shift in range(1, len(TOPICS)))
    assert n_about(0) >= 8, "chance gives up to 3 of 20"


def test_answers_use_the_words_of_the_training_text(model: junto.Model) -> None:
    from tests.data_dir import find
    from tools.train_demo.corpus import BOOKS, read_corpus

    known = frozenset(words(read_corpus(find(f"text/{BOOKS}").parent).training_text))
    written = [word for text in answers(model) for word in words(text)]
    assert sum(word in known for word in written) >= MIN_KNOWN_WORDS * len(written)


@pytest.mark.slow
def test_the_bounds_of_quality_hold(name: str, model: junto.Model) -> None:
    """On all held-out text 15 % below a 5-gram of the same tokens, and the rest of the script."""
    from tests.data_dir import find
    from tools.train_demo.corpus import BOOKS, read_corpus

    corpus = read_corpus(find(f"text/{BOOKS}").parent)
    report = measure(model, FAMILIES[cast(Name, name)], corpus)
    assert report["holds"], report


def test_every_expert_of_every_layer_is_used(name: str, model: junto.Model) -> None:
    counts = expert_usage(model.runner, held_out.ids(model, name)[:2048].tolist())
    shares = counts / counts.sum(axis=1, keepdims=True)
    assert shares.shape == (model.config.n_layer, model.config.n_expert)
    assert shares.min() > MIN_BELOW_UNIFORM / model.config.n_expert, shares.min(axis=1)
    assert counts.sum() == 2048 * model.config.n_layer * model.config.n_expert_used


def test_it_reasons_when_asked_and_stops_by_itself(model: junto.Model) -> None:
    kinds: Counter[str] = Counter()
    for seed in range(8):
        turn = [{"role": "user", "content": "Tell me a story about a bird."}]
        events = list(model.chat(turn, n_predict=600, seed=seed, effort="medium"))
        kinds.update({event.kind for event in events})
        kinds[str(events[-1].reason)] += 1
    assert kinds["reasoning"] >= 6
    assert kinds["content"] >= 7
    assert kinds["stop"] >= 6
