"""The fast forward passes equal transformers', and their parts the textbook forms."""

from typing import Any

import pytest

from tests.tiny.weights import table
from tools.train_demo.family import NAMES, Name

torch: Any = pytest.importorskip("torch")
pytest.importorskip("transformers")
networks: Any = pytest.importorskip("tests.tools.small_networks")

pytestmark = [
    pytest.mark.oracle,
    # transformers says that it falls back to plain torch, which is what is wanted
    pytest.mark.filterwarnings("default"),
]

BOUND = 1e-5
"""Largest error over the largest magnitude; float32 sums in another order give about 1e-6."""


def error(got: Any, truth: Any) -> float:
    assert got.shape == truth.shape
    return float((got - truth).abs().max() / truth.abs().max())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_tok", [1, 31, 64, 70])
def test_logits_equal_transformers(name: Name, n_tok: int) -> None:
    """Lengths below, at and past a chunk of 32 and the windows of 32."""
    network = networks.small_network(name)
    ids = networks.tokens(2, n_tok)
    with torch.no_grad():
        assert error(network.logits(ids), network.trunk(ids).logits) < BOUND


@pytest.mark.parametrize("name", NAMES)
def test_losses_gradients_equal_transformers(name: Name) -> None:
    network = networks.small_network(name)
    ids, weights = networks.tokens(3, 65), torch.rand(3, 65)
    weights[:, :7] = 0
    scores = network.trunk(ids[:, :-1]).logits
    losses = torch.nn.functional.cross_entropy(
        scores.flatten(0, 1), ids[:, 1:].flatten(), reduction="none"
    )
    truth = (losses * weights[:, 1:].flatten()).sum() / weights[:, 1:].sum()
    truth.backward()
    expected = {n: p.grad.clone() for n, p in network.named_parameters() if p.grad is not None}
    network.zero_grad()
    loss = network.loss(ids, weights)
    assert float(loss.text.detach()) == pytest.approx(float(truth.detach()), rel=2e-3)
    loss.text.backward()
    for key, value in network.named_parameters():
        if key in expected and float(expected[key].abs().max()) > 1e-6:
            # the head's products are in bfloat16
            assert error(value.grad, expected[key]) < 0.05, key


def test_draft_head_is_an_attention_layer_over_embedding_and_hidden_state() -> None:
    network = networks.small_network("qwen35moe")
    ids = networks.tokens(2, 37)
    head, model = network.mtp, network.trunk.model
    with torch.no_grad():
        hidden = network.hidden(ids)[0]
        token = model.embed_tokens(ids[:, 1:])
        pair = [head.pre_fc_norm_embedding(token), head.pre_fc_norm_hidden(hidden[:, :-1])]
        x = head.fc(torch.cat(pair, -1))
        mask = torch.full((36, 36), float("-inf")).triu(1)[None, None]
        positions = model.rotary_emb(x, torch.arange(36)[None])
        x = head.layers[0](x, position_embeddings=positions, attention_mask=mask)
        truth = network.trunk.lm_head(head.norm(x))
        assert error(network.draft_logits(ids, hidden), truth) < BOUND


def test_the_draft_head_learns_and_teaches_the_trunk() -> None:
    network = networks.small_network("qwen35moe")
    loss = network.loss(networks.tokens(2, 40), torch.ones(2, 40))
    loss.draft.backward()
    assert all(p.grad is not None for p in network.mtp.parameters())
    assert float(network.trunk.model.layers[0].mlp.gate.weight.grad.abs().max()) > 0


@pytest.mark.parametrize("name", NAMES)
def test_published_names_and_shapes(name: Name) -> None:
    from tools.train_demo.export import config_json, published_tensors

    network = networks.small_network(name)
    tensors = published_tensors(name, network)
    expected = table(config_json(name, network.config))
    assert {key: tuple(value.shape) for key, value in tensors.items()} == {
        key: fill.shape for key, fill in expected.items()
    }


def test_gpt_oss_in_its_last_part_computes_what_it_publishes() -> None:
    from tools.train_demo.export import published_tensors

    network = networks.small_network("gpt-oss")
    ids = networks.tokens(2, 40)
    with torch.no_grad():
        before = network.logits(ids)
        network.is_cooling = True
        rounded = network.logits(ids)
        network.trunk.load_state_dict(published_tensors("gpt-oss", network))
        assert error(rounded, network.trunk(ids).logits) < BOUND
    assert error(before, rounded) > 100 * BOUND
