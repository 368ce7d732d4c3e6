"""Bytes and operations, counted while a step runs, against sums worked out from shapes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import junto
from junto.engine.runner import Runner
from junto.measure.work import Counting, Work
from junto.ops.contract import Routing
from junto.ops.cpu import Cpu
from junto.ops.cpu.weights import packed
from junto.ops.views import AgedKV, BlockTable, Codes, DeltaView, KVView, Span
from tests.tiny.models import MIXES, TINY


def count(model: junto.Model, slot: int, ids: list[int]) -> Work:
    counting = Counting(model.runner.ops)
    runner = model.runner
    Runner(runner.architecture, runner.cfg, runner.weights, counting.as_ops(), runner.cache).step(
        [(slot, ids)]
    )
    return counting.work


def test_a_dense_model_reads_all_matrices_once_and_the_keys_so_far(tmp_path: Path) -> None:
    model = junto.load(
        TINY["llama_untied"].write_gguf(tmp_path / "m.gguf"), backend="cpu", kv="f32"
    )
    cfg, weights = model.config, model.runner.weights
    slot = model.runner.cache.open()
    count(model, slot, list(range(5, 75)))  # 70 tokens: more than a block
    work = count(model, slot, [7])
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    matrices = [getattr(layer, name) for layer in weights.layers for name in names]
    matrices.append(weights.whole.output)
    n_bytes = sum(packed(weight).matrix.n_bytes for weight in matrices)
    keys_and_values = cfg.n_layer * 2 * 71 * cfg.n_head_kv * cfg.head_dim * 4
    embedding_row = cfg.n_embd * 4
    assert work.n_bytes == n_bytes + keys_and_values + embedding_row
    assert work.n_float == 2 * sum(w.shape[0] * w.shape[1] for w in matrices)
    assert work.n_int8 == 0


def test_only_the_experts_that_were_chosen_are_read(tmp_path: Path) -> None:
    model = junto.load(MIXES["gpt_oss_mxfp4_q8_0"].write_gguf(tmp_path / "m.gguf"), backend="cpu")
    layer = model.runner.weights.layers[0]
    gate, up, down = layer.ffn_gate_exps, layer.ffn_up_exps, layer.ffn_down_exps
    counting = Counting(model.runner.ops)
    n_expert, n_ff, n_embd = gate.shape
    routing = Routing(np.array([[0, 2], [0, 1], [0, 2]]), np.full((3, 2), 0.5, np.float32))
    counting.as_ops().experts(
        np.ones((3, n_embd), np.float32), routing, gate, up, down, model.config.swiglu
    )
    each = sum(packed(w).matrix.n_bytes // n_expert for w in (gate, up, down))
    assert counting.work == Work(3 * each, n_int8=2 * 6 * 3 * n_ff * n_embd)


class _Deaf:
    """An `Ops` that computes nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


@pytest.mark.parametrize(("window", "n_seen"), [(None, 203), (16, 18), (500, 203)])
def test_a_window_bounds_the_keys_that_are_read(window: int | None, n_seen: int) -> None:
    """Three queries at 200 to 202: the first sees from 185 on with a window of 16."""
    k = np.zeros((4, 2, 5, 64), np.float16)
    view = KVView(
        k,
        k.transpose(0, 1, 3, 2),
        (Span(0, 0, 3, 200),),
        (BlockTable(0, np.arange(4, dtype=np.int32)),),
    )
    counting = Counting(_Deaf())
    q = np.zeros((3, 4, 5), np.float32)
    counting.as_ops().attention(q, q, q, view, scale=1.0, window=window)
    assert counting.work == Work(n_seen * 2 * 2 * 5 * 2)


def test_blocks_that_have_aged_are_read_as_codes() -> None:
    """A query at 402, in block 6: blocks 1 to 3 are codes of one byte, 0 and 4 to 6 are float16."""
    k, codes = np.zeros((7, 2, 32, 64), np.float16), np.zeros((4, 2, 32, 64), np.int8)
    scales = np.zeros((4, 2, 1, 64), np.float16)
    table = BlockTable(1, np.arange(3, dtype=np.int32))
    both = Codes(codes, scales), Codes(codes.transpose(0, 1, 3, 2), scales)
    aged = AgedKV(*both, 1, 2, (np.zeros(1, np.int32),), (table,), (0,))
    view = KVView(k, k.transpose(0, 1, 3, 2), (Span(0, 0, 1, 402),), (table,), aged)
    counting = Counting(_Deaf())
    q = np.zeros((1, 4, 32), np.float32)
    counting.as_ops().attention(q, q, q, view, scale=1.0)
    n_near = 403 - 3 * 64
    assert counting.work == Work(2 * 2 * (n_near * 32 * 2 + 3 * (64 * 32 + 64 * 2)))


@pytest.mark.parametrize(("pos", "n_tok", "n_state", "n_entry"), [(64, 1, 1, 1), (100, 70, 2, 64)])
def test_states_are_read_once_a_chunk(pos: int, n_tok: int, n_state: int, n_entry: int) -> None:
    view = DeltaView(
        state=np.zeros((1, 3, 5, 7), np.float32),
        k=np.zeros((1, 64, 1, 5), np.float32),
        u=np.zeros((1, 64, 3, 7), np.float32),
        decay=np.zeros((1, 64, 3), np.float32),
        conv=np.zeros((1, 67, 31), np.float32),
        spans=(Span(0, 0, n_tok, pos),),
        anchors=(64,),
    )
    counting = Counting(_Deaf())
    x = np.zeros((n_tok, 3, 7), np.float32)
    counting.as_ops().gated_delta_rule(x, x, x, x, x, view)
    entry = 4 * (5 + 3 * 7 + 3)
    assert counting.work == Work(n_state * (4 * 3 * 5 * 7 + n_entry * entry))


def test_counting_changes_no_result(tmp_path: Path) -> None:
    path = MIXES["qwen35moe_q8_0"].write_gguf(tmp_path / "m.gguf")
    model = junto.load(path, backend="cpu")
    ids = MIXES["qwen35moe_q8_0"].model.tokens(20).tolist()
    plain = model.logits(ids)
    counting = Counting(Cpu())
    model.runner.ops = counting.as_ops()
    np.testing.assert_array_equal(model.logits(ids), plain)
    assert counting.work.n_int8 > 0
