"""Experts are packed when a token needs them or there is time: once each, to the same bits."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGINT

import numpy as np
import pytest

import junto
from junto import _kernels
from junto.assembly import assemble
from junto.errors import FormatError, ModelError, RequestError
from junto.formats.quant_types import TYPES, U8
from junto.formats.tensor import Tensor
from junto.model import Model
from junto.models.loading import locate, open_file
from junto.ops.cpu import Cpu, backlog
from junto.ops.cpu.backlog import Backlog, n_bytes_to_come
from junto.ops.cpu.packed_cache import kept, open_store
from junto.ops.cpu.packed_writer import PackedWriter
from junto.ops.cpu.stack import Stack
from junto.ops.cpu.store import InMemory, Store
from junto.ops.cpu.weights import Unpacked, pack, packed
from tests.tiny.models import MIXES, TINY
from tests.tiny.random_weights import affine

MIX = MIXES["gpt_oss_mxfp4_q8_0"]
N_EXPERT, N_OUT, N_IN = 5, 33, 64
LONG_S = 60.0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return MIX.write_gguf(tmp_path / "model.gguf")


@pytest.fixture
def only_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is packed but what a step needs, and what is asked for."""
    monkeypatch.setattr(backlog, "IDLE_S", LONG_S)
    monkeypatch.setattr(backlog, "SHARE", 0.0)


def loaded(source: Path, folder: Path | None = None) -> Model:
    def store(pool: _kernels.ThreadPool) -> Store:
        if folder is None:
            return InMemory()
        return open_store([source], pool, folder=folder, worth_keeping=0)

    return assemble(locate(open_file(source)), Cpu(2, store=store))


def stacks(model: Model) -> list[Stack]:
    """The stacks of experts of all layers."""
    return [
        packed(weight).stack
        for layer in model.runner.weights.layers
        for weight in (layer.ffn_gate_exps, layer.ffn_up_exps, layer.ffn_down_exps)
    ]


def store_of(model: Model) -> Store:
    ops = model.runner.ops
    assert isinstance(ops, Cpu)
    return ops._store


def soon(condition: Callable[[], bool]) -> bool:
    """Whether it holds within some seconds."""
    end = time.monotonic() + 20
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def expert(index: int) -> Tensor:
    return Tensor.from_array(f"w{index}", affine(f"w{index}", (N_OUT, N_IN), 0.0, 1.0), "test")


def stack_of(experts: Sequence[Tensor]) -> Stack:
    return Stack(_kernels.PackedMatrix("F32", len(experts), N_OUT, N_IN), experts)


def damaged(tensor: Tensor) -> Tensor:
    def read() -> U8:
        raise FormatError("test: tensor 'w3' is damaged")

    return replace(tensor, read=read)


@pytest.mark.usefixtures("only_needed")
def test_a_token_packs_the_experts_it_uses_and_settling_the_others(source: Path) -> None:
    model = loaded(source)
    cfg = model.config
    assert all(stack.n_missing_bytes == stack.matrix.n_bytes for stack in stacks(model))
    lazily = model.logits([5])
    missing = [stack.n_missing_bytes / stack.matrix.n_bytes for stack in stacks(model)]
    assert missing == pytest.approx([1 - cfg.n_expert_used / cfg.n_expert] * len(missing))
    told: list[tuple[int, int]] = []
    to_come = store_of(model).backlog.n_bytes
    model.settle(lambda done, total: told.append((done, total)))
    assert told[-1] == (to_come, to_come)
    assert all(stack.is_whole for stack in stacks(model))
    np.testing.assert_array_equal(lazily, model.logits([5]))


@pytest.mark.usefixtures("only_needed")
@pytest.mark.parametrize("name", ["gpt_oss_mxfp4_q8_0", "qwen35moe_q4_k"])
def test_bits_are_those_of_packing_before_the_first_token(name: str, tmp_path: Path) -> None:
    path = MIXES[name].write_gguf(tmp_path / "m.gguf")
    ids = MIXES[name].model.tokens(70)
    lazily, at_once = loaded(path), loaded(path)
    at_once.settle()
    for cut in (1, 3, 70):
        np.testing.assert_array_equal(lazily.logits(ids[:cut]), at_once.logits(ids[:cut]))
    lazily.settle()
    for one, other in zip(stacks(lazily), stacks(at_once), strict=True):
        np.testing.assert_array_equal(one.matrix.data, other.matrix.data)


@pytest.mark.usefixtures("only_needed")
def test_the_packed_file_is_the_same_whenever_experts_were_packed(source: Path) -> None:
    files: list[bytes] = []
    for first in ("step", "settle"):
        folder = source.parent / first
        model = loaded(source, folder)
        if first == "step":
            model.logits([5, 9])
        assert not list(kept(folder)), "no file while experts are missing"
        writing = [model.is_keeping]
        model.settle()
        writing.append(model.is_keeping)
        assert writing == [True, False]
        (file,) = kept(folder)
        files.append(file.path.read_bytes())
    assert files[0] == files[1]


class SlowMatrix:
    """Counts how often each expert is filled, and notices two fills at once."""

    n_bytes = 700

    def __init__(self) -> None:
        self.filled: list[int] = []
        self.done: set[int] = set()
        self._is_filling = False

    def fill(self, expert: int, rows: U8, pool: object) -> None:
        assert not self._is_filling
        self._is_filling = True
        self.filled.append(expert)
        time.sleep(0.002)
        self.done.add(expert)
        self._is_filling = False


def test_racing_threads_fill_each_expert_once_and_wait_for_it() -> None:
    n_expert, pool = 40, _kernels.ThreadPool(1)
    matrix = SlowMatrix()
    stack = Stack(matrix, [expert(i) for i in range(n_expert)])  # type: ignore[arg-type]
    failures: list[str] = []

    def need(order: Sequence[int]) -> None:
        for i in order:
            stack.need([i, (i + 7) % n_expert, n_expert + 3, -1], pool)
            if not {i, (i + 7) % n_expert} <= matrix.done:
                failures.append(f"{i} was needed and is not there")

    def fill() -> None:
        while stack.pack_one(pool):
            pass

    rng = np.random.default_rng(0)
    threads = [threading.Thread(target=need, args=(rng.permutation(n_expert),)) for _ in range(3)]
    threads.append(threading.Thread(target=fill))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(matrix.filled) == list(range(n_expert))
    assert stack.is_whole
    assert stack.n_missing_bytes == 0


def test_a_model_packs_while_it_is_idle(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "IDLE_S", 0.05)
    model = loaded(source)
    assert soon(lambda: all(stack.is_whole for stack in stacks(model)))
    assert np.isfinite(model.logits([5])).all()


def test_nothing_is_packed_beside_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "IDLE_S", 0.0)
    stack, todo = stack_of([expert(i) for i in range(N_EXPERT)]), Backlog()
    todo.add(stack)
    todo.begin_step()
    thread = threading.Thread(target=todo.pack_while_idle, args=(1, lambda: True))
    thread.start()
    time.sleep(0.1)
    assert stack.n_missing_bytes == stack.matrix.n_bytes
    todo.rest()
    thread.join()
    assert stack.is_whole


def test_a_share_of_each_steps_time_goes_into_what_is_left() -> None:
    stack, todo = stack_of([expert(i) for i in range(N_EXPERT)]), Backlog()
    todo.add(stack)
    n_step = 0
    while not stack.is_whole:
        todo.begin_step()
        time.sleep(0.001)
        todo.end_step(_kernels.ThreadPool(1))
        n_step += 1
    assert 1 <= n_step <= N_EXPERT
    assert todo.n_bytes == 0


def test_a_model_is_idle_again_after_a_step_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that is interrupted inside a step would wait for ever for its packed file."""
    monkeypatch.setattr(backlog, "IDLE_S", 0.05)
    ops = Cpu(1)
    pack([expert(i) for i in range(N_EXPERT)], _kernels.ThreadPool(1), ops._store)
    with pytest.raises(RequestError), ops.step():
        ops.embed(ops.table(expert(0)), np.array([N_OUT], np.int32))
    assert ops._store.backlog.pack_while_idle(1, lambda: True)


@pytest.mark.usefixtures("only_needed")
def test_a_model_that_is_gone_packs_no_more(source: Path) -> None:
    model = loaded(source)
    (thread,) = (t for t in threading.enumerate() if t.name == "junto-packing")
    backlogs = store_of(model).backlog
    del model
    gc.collect()
    thread.join(20)
    assert not thread.is_alive()
    assert backlogs.n_bytes > 0


def test_an_expert_that_cannot_be_read_is_told_to_whoever_needs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backlog, "IDLE_S", 0.0)
    experts = [expert(i) for i in range(N_EXPERT)]
    experts[3] = damaged(experts[3])
    pool, store = _kernels.ThreadPool(1), InMemory()
    weight = pack(experts, pool, store)
    store.finish(1)
    stack = packed(weight).stack
    assert soon(lambda: stack.n_missing_bytes == stack.matrix.n_bytes * 2 // N_EXPERT)
    stack.need([0, 4], pool)
    with pytest.raises(FormatError, match="'w3' is damaged"):
        stack.need([3], pool)
    with pytest.raises(FormatError, match="'w3' is damaged"):
        store.settle()


def test_a_file_is_not_kept_where_an_expert_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "IDLE_S", 0.0)
    store = PackedWriter(tmp_path / "m.packed", "key", tmp_path / "m.gguf")
    pack([expert(0), damaged(expert(1))], _kernels.ThreadPool(1), store)
    store.finish(1)
    assert soon(lambda: not store.is_keeping)
    assert store.notes == ["test: tensor 'w3' is damaged; packed weights are not kept"]
    assert list(tmp_path.iterdir()) == []


def test_experts_of_several_types_are_refused_when_they_are_taken() -> None:
    other = Tensor("w1", (N_OUT, N_IN), TYPES["F16"], "test", lambda: np.empty(0, np.uint8))

    with pytest.raises(ModelError, match=r"test: tensor 'w1' is F16, expected F32 as 'w0' is"):
        pack([expert(0), other], _kernels.ThreadPool(1), InMemory())


@pytest.mark.usefixtures("only_needed")
@pytest.mark.parametrize("is_folder", [False, True])
def test_progress_of_loading_ends_at_all_of_it(is_folder: bool, tmp_path: Path) -> None:
    tiny = TINY["qwen35moe_ratio4"]
    path = tiny.write_safetensors(tmp_path / "m") if is_folder else tiny.write_gguf(tmp_path / "m")
    told: list[tuple[int, int]] = []
    junto.load(path, progress=lambda done, total: told.append((done, total)))
    assert [total for _, total in told] == [told[-1][0]] * len(told)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


@pytest.mark.usefixtures("only_needed")
def test_memory_that_is_still_to_be_taken_is_not_free(source: Path) -> None:
    gc.collect()  # models of other tests
    before = n_bytes_to_come()
    model = loaded(source)
    assert n_bytes_to_come() - before == sum(stack.matrix.n_bytes for stack in stacks(model))
    model.settle()
    assert n_bytes_to_come() == before


@pytest.mark.usefixtures("only_needed")
@pytest.mark.parametrize(("name", "is_tied"), [("llama_untied", False), ("llama_tied", True)])
def test_an_embedding_is_packed_only_where_it_is_the_head_too(
    name: str, is_tied: bool, tmp_path: Path
) -> None:
    model = loaded(TINY[name].write_gguf(tmp_path / "m.gguf"))
    handle = model.runner.weights.whole.token_embd.handle
    assert isinstance(handle, Unpacked) is not is_tied


PROGRAM = """
import sys, time
from pathlib import Path
from junto import _kernels
from junto.assembly import assemble
from junto.models.loading import locate, open_file
from junto.ops.cpu import Cpu, stack
from junto.ops.cpu.packed_cache import open_store
from junto.ops.cpu.store import InMemory

source, folder, pause = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
right = stack.Stack._pack

def slowly(self, expert, pool):
    time.sleep(pause)
    return right(self, expert, pool)

def store(pool):
    if "keep" not in sys.argv:
        return InMemory()
    return open_store([source], pool, folder=folder, worth_keeping=0)

ops = Cpu(2, store=store)
model = assemble(locate(open_file(source)), ops)
stack.Stack._pack = slowly
ops._store.backlog._since = 0.0  # idle, so that packing has begun
time.sleep(0.3)
print(ops._store.backlog.n_bytes, flush=True)
"""


def program(source: Path, pause_s: float, *words: str) -> "subprocess.Popen[str]":
    arguments = [sys.executable, "-c", PROGRAM, str(source), str(source.parent / "packed")]
    return subprocess.Popen(
        [*arguments, str(pause_s), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_program_that_ends_packs_no_more_for_itself(source: Path) -> None:
    running = program(source, 0.4)
    assert running.stdout is not None
    assert int(running.stdout.readline()) > 0
    start = time.monotonic()
    assert running.communicate(timeout=60) == ("", "")
    assert running.returncode == 0
    assert time.monotonic() - start < 3


def test_a_program_that_ends_makes_the_file_for_the_next_start(source: Path) -> None:
    running = program(source, 0.01, "keep")
    out, errors = running.communicate(timeout=60)
    assert int(out) > 0
    assert (errors, running.returncode) == ("", 0)
    assert len(list(kept(source.parent / "packed"))) == 1


def test_an_interrupt_at_the_end_of_a_program_leaves_no_file(source: Path) -> None:
    """Each expert takes a second, so that a loaded machine is at the end, and not done with it."""
    running = program(source, 1.0, "keep")
    assert running.stdout is not None
    assert int(running.stdout.readline()) > 0
    time.sleep(2)
    running.send_signal(SIGINT)
    _, errors = running.communicate(timeout=20)
    assert running.returncode in (0, 1, 130, -SIGINT)
    assert "terminate" not in errors
    assert list((source.parent / "packed").iterdir()) == []
