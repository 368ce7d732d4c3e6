"""A run is the same however it is interrupted, and what it exports is what it trained."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data_dir import find
from tools.train_demo.bpe import train_tokenizer
from tools.train_demo.corpus import Corpus
from tools.train_demo.family import FAMILIES, NAMES, Name
from tools.train_demo.render import Renderer

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
networks: Any = pytest.importorskip("tests.tools.small_networks")
training: Any = pytest.importorskip("tools.train_demo.training")

pytestmark = [
    pytest.mark.oracle,
    # transformers says that it falls back to plain torch, which is what is wanted
    pytest.mark.filterwarnings("default"),
]

STORY = "Once there was a fox who saw a hen. The hen ran over the hill to the old house. "
N_STEP = 6


def start(name: Name, out: Path, n_step: int = N_STEP, rate: float = 0.01) -> Any:
    """A run of a small network over a small text, as it starts or goes on in a folder."""
    out.mkdir(exist_ok=True)
    text = STORY * 40
    corpus = Corpus([text], [STORY.strip()] * 9, "A fox ran. " * 60, [STORY * 5])
    family = FAMILIES[name]
    template = find(f"templates/{family.template}").read_text()
    (out / "chat_template.jinja").write_text(template)
    tokenizer = train_tokenizer(family, [text], 290)
    tokenizer.save(str(out / "tokenizer.json"))
    renderer = Renderer(family, template, tokenizer)
    plan = training.Plan(1, n_step, 2, 64, rate, warmup=2)
    return training.Training(networks.small_network(name), corpus, renderer, plan, out)


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_run_equals_one_that_was_not(name: Name, tmp_path: Path) -> None:
    whole = start(name, tmp_path / "whole")
    assert whole.run(10, log_every=2)
    assert not start(name, tmp_path / "parts").run(10, until=3, log_every=2)
    parts = start(name, tmp_path / "parts")
    assert parts.step == 3
    assert parts.run(10, log_every=2)
    expected = whole.network.state_dict()
    assert all(torch.equal(v, expected[k]) for k, v in parts.network.state_dict().items())
    logs = [(tmp_path / run / "log.jsonl").read_text() for run in ("whole", "parts")]
    lines = [[json.loads(line) for line in log.splitlines()] for log in logs]
    assert [line["step"] for line in lines[1]] == [2, 4, 6]
    assert [line["loss"] for line in lines[0]] == [line["loss"] for line in lines[1]]


def test_the_loss_falls_and_experts_are_counted(tmp_path: Path) -> None:
    run = start("qwen35moe", tmp_path, n_step=12)
    run.run(10, log_every=1)
    lines = [json.loads(line) for line in run.log.read_text().splitlines()]
    assert lines[-1]["loss"] < lines[0]["loss"] - 2
    assert [len(layer) for layer in lines[0]["expert_usage"]] == [7] * 4
    assert sum(lines[0]["expert_usage"][0]) == pytest.approx(1, abs=0.01)


def test_the_length_of_a_run_may_change_only_before_its_rate_falls(tmp_path: Path) -> None:
    start("qwen35moe", tmp_path, n_step=10).run(10, until=3)
    longer = start("qwen35moe", tmp_path, n_step=12)
    assert longer.step == 3
    longer.run(10, until=9)
    with pytest.raises(ValueError, match="only up to step"):
        start("qwen35moe", tmp_path, n_step=20)
    with pytest.raises(ValueError, match="other options"):
        start("qwen35moe", tmp_path, n_step=12, rate=0.02)


@pytest.mark.parametrize("name", NAMES)
def test_an_exported_folder_gives_the_same_logits_in_transformers(
    name: Name, tmp_path: Path
) -> None:
    from tools.train_demo.export import write_folder
    from tools.train_demo.sample import load

    run = start(name, tmp_path / "run")
    run.run(10, until=2)
    run.network.is_cooling = True
    write_folder(name, run.network, tmp_path / "run", tmp_path / "export")
    model, tokenizer = load(tmp_path / "export")
    ids = networks.tokens(1, 70)
    with torch.no_grad():
        got, truth = model(ids).logits, run.network.logits(ids)
    assert float((got - truth).abs().max() / truth.abs().max()) < 1e-5
    talk = [{"role": "user", "content": "Tell me a story."}]
    text = tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True)
    assert "Tell me a story." in text
    assert tokenizer.decode(tokenizer(text).input_ids) == text
