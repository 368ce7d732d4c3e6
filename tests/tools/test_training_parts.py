"""What the networks are made of: each fast part against its definition."""

from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch")
parts: Any = pytest.importorskip("tools.train_demo.experts")
delta_rule: Any = pytest.importorskip("tools.train_demo.delta_rule")
head_loss: Any = pytest.importorskip("tools.train_demo.head_loss")
muon: Any = pytest.importorskip("tools.train_demo.muon")
mxfp4: Any = pytest.importorskip("tools.train_demo.mxfp4")

pytestmark = pytest.mark.oracle


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(3)


def double(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_mixed_experts_and_their_gradients_equal_the_plain_sum() -> None:
    n_tok, d, f, n_expert, k = 11, 5, 3, 7, 2
    x, first, second = double(n_tok, d), double(n_expert, 2 * f, d), double(n_expert, d, f)
    share = double(n_tok, k)
    chosen = torch.stack([torch.randperm(n_expert - 1)[:k] for _ in range(n_tok)])

    def activate(hidden: Any, _: Any) -> Any:
        return hidden[:, :f].tanh() * hidden[:, f:]

    def plain() -> Any:
        rows = []
        for t in range(n_tok):
            outs = [second[e] @ activate((first[e] @ x[t])[None], None)[0] for e in chosen[t]]
            rows.append(sum(share[t, i] * out for i, out in enumerate(outs)))
        return torch.stack(rows)

    inputs = (x, share, first, second)
    fast = parts.mix_experts(x, chosen, share, first, second, activate)
    assert torch.allclose(fast, plain(), atol=1e-12)
    slope = torch.randn(n_tok, d, dtype=torch.float64)
    got = torch.autograd.grad(fast, inputs, slope)
    expected = torch.autograd.grad(plain(), inputs, slope)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(got, expected, strict=True))


def test_balance_is_one_for_even_use_and_more_otherwise() -> None:
    even = torch.full((8, 4), 0.25)
    chosen = torch.arange(4).repeat(4)[: 8 * 2].view(8, 2)
    assert float(parts.balance_loss(even, chosen)) == pytest.approx(1.0)
    skewed = torch.tensor([[0.7, 0.1, 0.1, 0.1]]).expand(8, 4)
    assert float(parts.balance_loss(skewed, torch.zeros(8, 2, dtype=torch.long))) > 2


@pytest.mark.parametrize("n_chunk", [1, 3])
def test_chunks_of_the_delta_rule_equal_the_recurrence(n_chunk: int) -> None:
    n_row, n_tok, n_key, n_value, s = 2, n_chunk * delta_rule.CHUNK, 3, 6, 4
    query, key = (
        torch.nn.functional.normalize(double(n_row, n_tok, n_key, s), dim=-1) for _ in range(2)
    )
    value = double(n_row, n_tok, n_value, s)
    decay = -torch.rand(n_row, n_tok, n_value, dtype=torch.float64)
    beta = torch.rand(n_row, n_tok, n_value, dtype=torch.float64)
    y = delta_rule.gated_delta_rule(query, key, value, decay, beta)
    for head in range(n_value):
        q, k = query[:, :, head // 2], key[:, :, head // 2]
        memory = torch.zeros(n_row, s, s, dtype=torch.float64)
        for t in range(n_tok):
            memory = memory * decay[:, t, head].exp()[:, None, None]
            miss = value[:, t, head] - torch.einsum("rk,rkv->rv", k[:, t], memory)
            memory = memory + torch.einsum("rk,rv->rkv", k[:, t], beta[:, t, head, None] * miss)
            truth = torch.einsum("rk,rkv->rv", q[:, t], memory)
            assert torch.allclose(y[:, t, head], truth, atol=1e-10)


def test_head_loss_and_gradients_equal_cross_entropy() -> None:
    """Products are in bfloat16, so values agree to its 8 bits."""
    n_row, n_tok, d, n_vocab = 3, 111, 24, 50
    hidden = torch.randn(n_row, n_tok, d, requires_grad=True)
    output = (0.3 * torch.randn(n_vocab, d)).requires_grad_()
    targets, weights = torch.randint(0, n_vocab, (n_row, n_tok)), torch.rand(n_row, n_tok)
    losses = torch.nn.functional.cross_entropy(
        (hidden @ output.T).flatten(0, 1), targets.flatten(), reduction="none"
    )
    truth = (losses * weights.flatten()).sum() / weights.sum()
    fast = head_loss.head_loss(hidden, output, targets, weights)
    assert float(fast.detach()) == pytest.approx(float(truth.detach()), rel=2e-3)
    got = torch.autograd.grad(fast, (hidden, output))
    expected = torch.autograd.grad(truth, (hidden, output))
    for a, b in zip(got, expected, strict=True):
        assert float((a - b).abs().max()) < 0.02 * float(b.abs().max())


@pytest.mark.parametrize("shape", [(3, 20, 33), (2, 40, 17)])
def test_muon_steps_are_nearly_orthogonal(shape: tuple[int, ...]) -> None:
    """The iteration's own fixed points leave singular values between about 0.7 and 1.2."""
    values = torch.linalg.svdvals(muon.orthogonal(torch.randn(*shape)))
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.35


def test_the_optimizer_finds_the_minimum_of_a_least_squares_problem() -> None:
    truth, x = torch.randn(24, 32), torch.randn(200, 32)
    w, b = torch.zeros(24, 32, requires_grad=True), torch.zeros(24, requires_grad=True)
    optimizer = muon.Optimizer({"w": w, "b": b}, {"w"}, decay=0.0)
    for step in range(300):
        (x @ w.T + b - x @ truth.T - 0.5).square().mean().backward()
        optimizer.step(0.2 * (1 - step / 300))
    assert float((w.detach() - truth).abs().max()) < 0.05
    assert float((b.detach() - 0.5).abs().max()) < 0.05


def test_mxfp4_takes_the_nearest_of_its_values() -> None:
    grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    weight = torch.randn(5, 64) * torch.logspace(-3, 2, 5)[:, None]
    rounded = mxfp4.round_to_mxfp4(weight).numpy()
    for row, got in zip(weight.numpy().reshape(-1, 32), rounded.reshape(-1, 32), strict=True):
        scale = 2.0 ** (np.floor(np.log2(np.abs(row).max())) - 2)
        nearest = np.abs(np.abs(row)[:, None] / scale - grid).argmin(1)
        assert np.array_equal(got, np.sign(row) * grid[nearest] * scale)


def test_mxfp4_rounds_twice_as_once_along_any_axis_and_keeps_zeros() -> None:
    weight = torch.randn(3, 96, 7)
    weight[1, 32:64] = 0
    once = mxfp4.round_to_mxfp4(weight, axis=1)
    assert torch.equal(mxfp4.round_to_mxfp4(once, axis=1), once)
    assert torch.equal(mxfp4.round_to_mxfp4(weight.mT).mT, once)
    assert not once[1, 32:64].any()


def test_gradients_pass_the_rounding_unchanged() -> None:
    weight = torch.randn(2, 32, requires_grad=True)
    slope = torch.randn(2, 32)
    mxfp4.straight_through(weight).backward(slope)
    assert torch.equal(weight.grad, slope)
