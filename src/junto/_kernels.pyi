"""C++ kernels of junto."""

from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def build() -> str:
    """The compiler of this build, and what is unusual in its flags."""

def cpu_features() -> list[str]:
    """
    Name the instruction sets that both the CPU and the operating system support.

    On x86 for example 'avx2', 'fma', 'avx512f', 'avx512vnni'; on aarch64 'neon'
    and 'asimddp'; elsewhere nothing.
    """

def levels() -> list[str]:
    """Name the levels whose kernels can run here, best first."""

def level_needs() -> list[tuple[str, list[str]]]:
    """
    All levels of this build, best first, and the instruction sets that each needs.
    """

class ThreadPool:
    """Threads that share the loops of kernels."""

    def __init__(self, n_threads: int) -> None: ...

    @property
    def n_threads(self) -> int:
        """Threads, the caller included."""

    def wake(self) -> None:
        """Keep the workers spinning until `rest`."""

    def rest(self) -> None:
        """Let the workers sleep between loops."""

@overload
def attention(level: str, pool: ThreadPool, q: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k_pool: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu')], v_pool: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu')], spans: Annotated[NDArray[numpy.int32], dict(shape=(None, 5), order='C', device='cpu', writable=False)], blocks: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, window: int | None, sinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, y: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    Store k and v in the pools, then attend causally, each span to itself, into y.

    k_pool [n_pool_block, n_head_kv, head_dim, 64], v_pool [n_pool_block, n_head_kv, 64,
    head_dim], float32 in both or float16 in both. spans [n_span, 5]: first row, rows, position, first block
    of the table, blocks in it; blocks: the tables one after the other.
    """

@overload
def attention(level: str, pool: ThreadPool, q: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k_pool: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], v_pool: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], spans: Annotated[NDArray[numpy.int32], dict(shape=(None, 5), order='C', device='cpu', writable=False)], blocks: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, window: int | None, sinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, y: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """The same with float16 pools."""

@overload
def attention_by_age(level: str, pool: ThreadPool, q: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k_pool: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], v_pool: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], spans: Annotated[NDArray[numpy.int32], dict(shape=(None, 5), order='C', device='cpu', writable=False)], blocks: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], k_codes: Annotated[NDArray[numpy.int8], dict(shape=(None, None, None, None), order='C', device='cpu')], v_codes: Annotated[NDArray[numpy.int8], dict(shape=(None, None, None, None), order='C', device='cpu')], k_scales: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], v_scales: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], aged_spans: Annotated[NDArray[numpy.int32], dict(shape=(None, 3), order='C', device='cpu', writable=False)], aged_blocks: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_pinned: int, n_recent: int, scale: float, sinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, y: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    The same where blocks age: a query of block B sees block b as codes of Q8_0 if b >= n_pinned
    and B - b > n_recent, else in the pools, which are float16.

    k_codes [n_code_block, n_head_kv, head_dim, 64], v_codes [n_code_block, n_head_kv, 64,
    head_dim], scales [n_code_block, n_head_kv, head_dim / 32, 64]. The tables of spans begin
    behind the pinned blocks. aged_spans [n_span, 3]: pinned blocks, blocks with codes, and how
    many of those, at the end, get their codes now; aged_blocks: for each span the pinned
    blocks, then those with codes.
    """

@overload
def attention_by_age(level: str, pool: ThreadPool, q: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], v: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], k_pool: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], v_pool: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], spans: Annotated[NDArray[numpy.int32], dict(shape=(None, 5), order='C', device='cpu', writable=False)], blocks: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], k_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), order='C', device='cpu')], v_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, None, None), order='C', device='cpu')], k_scales: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], v_scales: Annotated[NDArray[numpy.float16], dict(shape=(None, None, None, None), order='C', device='cpu')], aged_spans: Annotated[NDArray[numpy.int32], dict(shape=(None, 3), order='C', device='cpu', writable=False)], aged_blocks: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], n_pinned: int, n_recent: int, scale: float, sinks: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, y: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    The same with codes of Q4_0, two rows a byte, so that axis 2 is half as long.
    """

def decode_rows(level: str, pool: ThreadPool, type: str, rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Stored rows, uint8 [n_row, bytes of a row], to float32 [n_row, n]."""

def gated_delta_rule(level: str, pool: ThreadPool, q: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], v: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), device='cpu', writable=False)], decay: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], beta: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], state: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu')], list_k: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu')], list_u: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu')], list_decay: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], spans: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    Write the outputs of the gated delta rule to y; the states and lists of spans advance.

    spans int64 [n_span, 5]: slot, row, n_tok, pos, anchor. Rows of q, k, v, decay and beta
    may be slices of wider rows.
    """

def short_conv(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], conv: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], spans: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """
    Write SiLU of the causal convolution of x to y; x is kept in conv.

    spans as for gated_delta_rule. weight [n_channel, n_tap] may have any strides, and is
    fastest as the transpose of a contiguous [n_tap, n_channel].
    """

def rms_norm(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], eps: float, y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """y = x / sqrt(mean(x^2) + eps) * weight over the last axis."""

def layer_norm(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], eps: float, y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """
    y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias over the last axis.
    """

def gated_rms_norm(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], weight: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], gate: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], eps: float, y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """y = rms_norm(x) * silu(gate)."""

def sigmoid_gate(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], gate: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """y = x * sigmoid(gate); gate has the shape of x, or one column."""

def swiglu(level: str, pool: ThreadPool, gate: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], up: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], limit: float, alpha: float, y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """y = silu(gate) * up; with a limit above 0 gpt-oss's clamped form."""

def gelu(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """
    y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the tanh form of GELU.
    """

def add(level: str, pool: ThreadPool, a: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], b: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """y = a + b."""

def delta_gates(level: str, pool: ThreadPool, alpha: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], beta: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], ssm_a: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], ssm_dt: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], decay: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], open: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """decay = ssm_a * softplus(alpha + ssm_dt), open = sigmoid(beta)."""

def rope_table(positions: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], inv_freq: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: float, cos: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], sin: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """
    Fill cos and sin [n_tok, n_pair] of position * inv_freq, times scale; in float64 inside.
    """

def rope(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], cos: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], sin: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], adjacent: bool, y: Annotated[NDArray[numpy.float32], dict(device='cpu')]) -> None:
    """
    Turn the first 2 * n_pair values of each head: x [n_tok, n_head, head_dim] into y.
    """

class PackedMatrix:
    """A weight, or a stack of one an expert, packed."""

    def __init__(self, type: str, n_expert: int, n_out: int, n_in: int, data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None:
        """
        Memory to be filled; or, with `data`, a packed form that lies there already.
        """

    def fill(self, expert: int, rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), device='cpu', writable=False)], pool: ThreadPool) -> None:
        """Pack one expert's stored rows, uint8 [n_out, bytes of a row]."""

    @staticmethod
    def size(type: str, n_expert: int, n_out: int, n_in: int) -> int:
        """Bytes that such a matrix takes."""

    @property
    def data(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,), writable=False)]:
        """The packed form, uint8 [n_bytes], read-only."""

    @property
    def n_bytes(self) -> int:
        """Bytes of the packed form."""

def checksum(data: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], pool: ThreadPool) -> int:
    """
    A number that changes with any byte of uint8 [n]; it finds damage, not malice.
    """

def packed_types() -> list[str]:
    """Names of the types that PackedMatrix takes."""

def linear(level: str, pool: ThreadPool, weight: PackedMatrix, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, y: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """y = x @ weight.T + bias."""

def experts(level: str, pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], expert_ids: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], gate: PackedMatrix, up: PackedMatrix, down: PackedMatrix, limit: float, alpha: float, bias_gate: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, bias_up: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, bias_down: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, y: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Weighted sum of the routed experts' outputs."""

def peak_read(level: str, pool: ThreadPool, n_bytes: int, n_run: int) -> list[float]:
    """Bytes a second of passes over fresh memory, one figure a pass."""

def peak_dot(level: str, pool: ThreadPool, n_run: int) -> list[float]:
    """
    8-bit operations a second of the level's dot product, multiplications and additions.
    """

def peak_fma(level: str, pool: ThreadPool, n_run: int) -> list[float]:
    """float32 operations a second, multiplications and additions."""

class Plan:
    """The kernel calls of a step, recorded, to be run again."""

    def __init__(self, pool: ThreadPool) -> None: ...

    def __len__(self) -> int: ...

    def record(self) -> None:
        """Add all calls on the pool, from now on."""

    def stop(self) -> None:
        """Add no more."""

    def run(self) -> None:
        """
        Repeat all calls, on the arrays that they were given.

        Arrays may hold other values than before; they are checked as in the first call.
        """

def copy(pool: ThreadPool, x: Annotated[NDArray[numpy.float32], dict(device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')]) -> None:
    """Copy x of up to four axes and any strides to y, which is contiguous."""

def plain_sum(pool: ThreadPool, a: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], b: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], y: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu')]) -> None:
    """
    y = a + b with the bits of NumPy: tiny values stay, where `add` makes them zero.
    """

def quantize(level: str, pool: ThreadPool, type: str, rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], importance: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')]) -> int:
    """
    Quantise rows [n_row, n] into out [n_row, bytes of a row].

    importance [n]: positive or zero weights of the squared errors, or None.
    Returns the index of the first value that the type cannot hold, or -1.
    """

def quantized_types() -> list[str]:
    """Types that `quantize` writes."""

def largest_value(type: str) -> float:
    """The largest size of a value that `quantize` takes for a type."""

def route(pool: ThreadPool, logits: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], over_all: bool, scale: float, expert_ids: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], weights: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Choose the largest logits of each row, and their weights."""

def sample(level: str, pool: ThreadPool, logits: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], settings: Annotated[NDArray[numpy.float64], dict(shape=(None, 5), order='C', device='cpu', writable=False)]) -> list[int]:
    """
    One token for each row of logits [n_row, n_vocab].

    settings float64 [n_row, 5]: temperature, top_k, top_p, min_p, uniform in [0, 1).
    """
