"""The plan of memory: what is counted, what fits, and what is said where it does not."""

import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import junto
from junto import memory_plan
from junto.cache import Cache, KVType
from junto.errors import RoomError
from junto.memory import MemoryState
from junto.memory_plan import chosen_context, largest_context, plan
from junto.models.loading import Blueprint, locate, open_file
from junto.models.weight_sizes import weight_sizes
from junto.ops.views import F32, Batch
from tests.tiny.models import MIXES, TINY

MODELS = ["qwen35moe_ratio2", "gpt_oss_window32", "llama_untied", "qwen35moe_wide"]
F16 = KVType("f16")


def located(name: str, folder: Path) -> Blueprint:
    return locate(open_file(TINY[name].write_gguf(folder / f"{name}.gguf")))


def most_held(cache: Cache, n_ctx: int, step: int) -> int:
    """Bytes of blocks that a sequence holds at most while it is fed, without a forward pass."""
    slot, most = cache.open(), 0
    for pos in range(0, n_ctx, step):
        ids = [0] * min(step, n_ctx - pos)
        batch = Batch.pack([(slot, pos, ids)], all_logits=False)
        cache.begin(batch)
        held = sum(
            group.n_block_used * group._floats.n_bytes_block
            + group.n_block_aged * group._codes.n_bytes_block
            for group in cache.kv_groups
        )
        most = max(most, held)
        cache.commit(batch)
    return most


@pytest.mark.parametrize("kv", ["f32", "f16", "q8_0", "q4_0"])
@pytest.mark.parametrize("name", MODELS)
def test_keys_and_values_are_planned_as_they_are_held(name: str, kv: str, tmp_path: Path) -> None:
    """Never less than what is held, and at most four blocks of each group more."""
    blueprint, kv_type = located(name, tmp_path), KVType(kv)  # type: ignore[arg-type]
    for n_ctx in (1, 63, 700, 1000):
        cache = blueprint.architecture.make_cache(blueprint.cfg, 2, n_ctx, kv_type)
        planned = plan(blueprint, n_ctx, kv_type)
        held = most_held(cache, n_ctx, 512)
        slack = sum(4 * group._floats.n_bytes_block for group in cache.kv_groups)
        assert held <= planned.kv <= held + slack
        assert 2 * planned.state == cache.n_bytes_delta


def test_slots_take_their_share(tmp_path: Path) -> None:
    blueprint = located("qwen35moe_ratio2", tmp_path)
    one, three = plan(blueprint, 500, F16, 1), plan(blueprint, 500, F16, 3)
    assert (three.kv, three.state) == (3 * one.kv, 3 * one.state)
    assert three.weights == one.weights > weight_sizes(blueprint).n_bytes


def test_planning_allocates_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blueprint = located("qwen35moe_ratio2", tmp_path)
    made: list[int] = []
    zeros = np.zeros

    def watched(shape: tuple[int, ...], dtype: type = float) -> F32:
        made.append(int(np.prod(shape)))
        return zeros(shape, dtype)

    monkeypatch.setattr(np, "zeros", watched)
    plan(blueprint, 1024, F16, 8)
    assert made
    assert sum(made) == 0


def test_sizes_count_experts_that_are_chosen_and_one_row_of_the_embedding(tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio2"]
    blueprint = located("qwen35moe_ratio2", tmp_path)
    tensors = blueprint.file.tensors
    sizes = weight_sizes(blueprint)
    values = {name: int(np.prod(t.shape)) for name, t in tensors.items()}
    assert sizes.n_parameter == sum(values.values())
    assert sizes.n_bytes == sum(t.n_bytes for t in tensors.values())
    idle = sum(n for name, n in values.items() if "_exps." in name) * (11 - 5) / 11
    idle += values["token_embd.weight"] * (1 - 1 / tiny.n_vocab)
    assert sizes.n_parameter_active == round(sum(values.values()) - idle)


def test_an_embedding_that_is_the_output_too_is_read_whole(tmp_path: Path) -> None:
    sizes = weight_sizes(located("llama_tied", tmp_path))
    assert sizes.n_parameter_active == sizes.n_parameter


def test_longest_context_is_where_the_plan_stops_fitting(tmp_path: Path) -> None:
    blueprint = located("llama_untied", tmp_path)
    free = int(plan(blueprint, 1000, F16).total / memory_plan.SPARE) + 1
    longest = largest_context(blueprint, F16, free)
    assert longest == 1024
    assert largest_context(blueprint, F16, None) == blueprint.cfg.n_ctx_train == 2048
    assert largest_context(blueprint, F16, 1000) == 0


def with_free(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    state = MemoryState(free * 2, free, None, None, None)
    monkeypatch.setattr("junto.assembly.memory", lambda: state)


def long_llama(folder: Path) -> Blueprint:
    """A model whose keys and values can outgrow everything else."""
    blueprint = located("llama_untied", folder)
    return replace(blueprint, cfg=replace(blueprint.cfg, n_ctx_train=1 << 22))


def test_default_context_is_what_fits_and_a_shorter_one_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = TINY["llama_untied"].write_gguf(tmp_path / "m.gguf")
    assert junto.load(path).n_ctx == 2048
    monkeypatch.setattr(memory_plan, "LEAST_CONTEXT", 512)
    free = int(plan(locate(open_file(path)), 1000, F16).total / memory_plan.SPARE) + 1
    with_free(monkeypatch, free)
    model = junto.load(path, kv="f16")
    assert model.n_ctx == 1024
    assert any("the context is 1,024 tokens, as much as fits into" in note for note in model.notes)
    assert "trained for 2,048" in model.notes[-1]
    assert junto.load(path, kv="f16", n_ctx=500).n_ctx == 500


def test_too_long_a_context_is_refused_with_both_sizes_and_what_would_fit(tmp_path: Path) -> None:
    blueprint = long_llama(tmp_path)
    free = plan(blueprint, 1 << 20, KVType("f32")).total
    with pytest.raises(RoomError) as refused:
        chosen_context(blueprint, KVType("f32"), 1 << 21, free)
    line = str(refused.value)
    assert "llama_untied.gguf: needs 2.0 GB of memory for a context of 2,097,152" in line
    assert "1.0 GB are free; n_ctx 988,032 or kv f16 with n_ctx 1,976,064 would fit" in line
    assert "\n" not in line


def test_too_large_a_file_is_refused_with_the_size_that_would_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blueprint = locate(open_file(MIXES["qwen35moe_q8_0"].write_gguf(tmp_path / "m.gguf")))
    monkeypatch.setattr(memory_plan, "N_ACTIVATION", 0)  # else a shorter context saves as much
    free = (plan(blueprint, 1, F16).total - 4_000_000) / memory_plan.SPARE
    with pytest.raises(RoomError, match=r"m\.gguf: needs .*; a file of at most \d\S* MB would fit"):
        chosen_context(blueprint, F16, None, int(free))
    with pytest.raises(RoomError, match="no file of this model would fit; free some memory"):
        chosen_context(blueprint, F16, None, 1_000_000)


LOAD = """
import sys
import junto
print(junto.load(sys.argv[1], n_threads=1, keep_packed=False).logits([1, 2, 3]).shape)
"""


def under_limit(path: Path, n_bytes: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(path)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes)),
        env={"OPENBLAS_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
    )


def test_under_a_real_limit_a_model_runs_or_is_refused_in_one_line(tmp_path: Path) -> None:
    path = TINY["llama_untied"].write_gguf(tmp_path / "m.gguf")
    enough = under_limit(path, 1 << 30)
    assert (enough.returncode, enough.stdout) == (0, "(3, 263)\n"), enough.stderr
    short = under_limit(path, 150 << 20)
    assert "RoomError: m.gguf: needs" in short.stderr.splitlines()[-1], short.stderr
