"""Tokenizers have their family's form; rendered dialogues are what the template writes."""

import json
import lzma
import random

import pytest
from tokenizers import Tokenizer

from tests.data_dir import find
from tools.train_demo.bpe import empty_tokenizer, train_tokenizer
from tools.train_demo.dialogue import Conversation
from tools.train_demo.family import FAMILIES, NAMES, Name
from tools.train_demo.render import PROMPT_WEIGHT, Document, Renderer
from tools.train_demo.tool_calls import tool_conversation

N_VOCAB = 300
SENTENCE = "the user wants a story about a fox and the fox ran over the hill to the old house"
ANSWER = "The fox ran. It was late."
TALK = Conversation(
    [
        {"role": "user", "content": "Tell me a story."},
        {"role": "assistant", "content": "One day.", "thinking": "not shown again"},
        {"role": "user", "content": "Another one."},
        {"role": "assistant", "content": ANSWER, "thinking": "A fox, then."},
    ],
    effort="medium",
)
WRITTEN: dict[Name, list[str]] = {
    "qwen35moe": ["One day.<|im_end|>", f"<think>\nA fox, then.\n</think>\n\n{ANSWER}<|im_end|>"],
    "gpt-oss": [
        "<|channel|>final<|message|>One day.<|end|>",
        "<|channel|>analysis<|message|>A fox, then.<|end|>",
        f"<|channel|>final<|message|>{ANSWER}<|return|>",
    ],
}


def tokenizer(name: Name) -> Tokenizer:
    rng = random.Random(0)
    texts = [" ".join(rng.choices(SENTENCE.split(), k=30)) + "." for _ in range(200)]
    return train_tokenizer(FAMILIES[name], texts, N_VOCAB)


def renderer(name: Name) -> Renderer:
    template = find(f"templates/{FAMILIES[name].template}").read_text()
    return Renderer(FAMILIES[name], template, tokenizer(name))


def written(made: Renderer, document: Document) -> str:
    assert made.tokenizer is not None
    pairs = zip(document.ids, document.weights, strict=True)
    ids = [token for token, weight in pairs if weight == 1]
    return made.tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("name", NAMES)
def test_added_tokens_come_last_and_are_one_token_each(name: Name) -> None:
    made, family = tokenizer(name), FAMILIES[name]
    added = [*family.special, *family.plain]
    n_merged = N_VOCAB - len(added)
    assert [made.token_to_id(token) for token in added] == list(range(n_merged, N_VOCAB))
    assert made.encode("the fox" + added[0]).ids[-1] == n_merged
    assert made.decode([n_merged]) == ""


@pytest.mark.parametrize("name", NAMES)
def test_any_text_survives_a_round_trip(name: Name) -> None:
    text = 'the fox\n\n "ran"  over 12345 hills, höher & höher 🦊'
    made = tokenizer(name)
    assert made.decode(made.encode(text).ids) == text


def test_too_little_text_for_the_vocabulary_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 1000"):
        train_tokenizer(FAMILIES["gpt-oss"], ["the fox"], 1000)


@pytest.mark.parametrize(("name", "published"), [("qwen35moe", "qwen35"), ("gpt-oss", "gpt-oss")])
def test_text_is_split_as_the_published_tokenizer_splits_it(name: Name, published: str) -> None:
    with lzma.open(find(f"tokenizers/{published}.tokenizer.json.xz"), "rt") as file:
        theirs = json.load(file)["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    ours = json.loads(empty_tokenizer(FAMILIES[name]).to_str())
    assert ours["pre_tokenizer"]["pretokenizers"][0]["pattern"] == theirs


@pytest.mark.parametrize("name", NAMES)
def test_exactly_what_the_assistant_writes_has_full_weight(name: Name) -> None:
    made = renderer(name)
    document = made.document(TALK, random.Random(1))
    assert written(made, document) == "".join(WRITTEN[name])
    assert set(document.weights) == {1.0, PROMPT_WEIGHT}
    assert not document.is_plain


def test_without_reasoning_qwen_writes_the_empty_thought_that_its_prompt_may_hold() -> None:
    made = renderer("qwen35moe")
    talk = Conversation([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}])
    assert written(made, made.document(talk, random.Random(1))) == (
        "<think>\n\n</think>\n\nHo<|im_end|>"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_tool_call_ends_as_the_family_ends_it(name: Name) -> None:
    made = renderer(name)
    for seed in range(12):
        messages, tools = tool_conversation(random.Random(seed), reasons=False)
        document = made.document(Conversation(messages[:2], tools=tools), random.Random(1))
        end = {"qwen35moe": "</tool_call><|im_end|>", "gpt-oss": "<|call|>"}[name]
        assert written(made, document).endswith(end)


@pytest.mark.parametrize("name", NAMES)
def test_plain_text_stands_between_the_familys_markers(name: Name) -> None:
    made, family = renderer(name), FAMILIES[name]
    document = made.plain("the fox")
    assert made.tokenizer is not None
    text = made.tokenizer.decode(document.ids, skip_special_tokens=False)
    assert text == f"{family.before}the fox{family.after}"
    assert document.weights == [1.0] * len(document.ids)
