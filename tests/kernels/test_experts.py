"""experts on packed weights: against the same sums in float64, and the same bits in any company."""

import numpy as np
import pytest

from junto import _kernels
from junto.formats.quant_types import TYPES
from junto.ops.contract import Routing, SwiGLU
from junto.ops.reference.elementwise import swiglu
from junto.ops.views import F32
from tests.kernels.packing import QUANTISED, activations, pack, stored_rows, values_of
from tests.tiny.random_weights import affine, tokens

LEVELS = _kernels.levels()
N_EXPERT, N_USED = 7, 3
CLAMPED = SwiGLU(limit=1.5, alpha=1.702)


class Layer:
    """Random experts, packed and in float64; of one type, or of three for gate, up and down."""

    def __init__(
        self, types: str | tuple[str, str, str], n_embd: int, n_ff: int, *, biased: bool
    ) -> None:
        of_each = (types, types, types) if isinstance(types, str) else types
        self.types = dict(zip(("gate", "up", "down"), of_each, strict=True))
        pool = _kernels.ThreadPool(1)
        shapes = {"gate": (n_ff, n_embd), "up": (n_ff, n_embd), "down": (n_embd, n_ff)}
        self.packed: dict[str, _kernels.PackedMatrix] = {}
        self.values: dict[str, list[np.ndarray]] = {}
        self.biases: dict[str, F32 | None] = {}
        for name, (n_out, n_in) in shapes.items():
            type_name = self.types[name]
            rows = [stored_rows(f"{name}{e}", type_name, n_out, n_in) for e in range(N_EXPERT)]
            self.packed[name] = pack(type_name, rows, n_in, pool)
            self.values[name] = [values_of(type_name, r) for r in rows]
            bias = affine(f"bias {name}", (N_EXPERT, n_out), 0.0, 1.0)
            self.biases[name] = bias if biased else None

    def run(self, level: str, x: F32, routing: Routing, form: SwiGLU, n_threads: int = 2) -> F32:
        y = np.full_like(x, np.nan)
        _kernels.experts(
            level,
            _kernels.ThreadPool(n_threads),
            x,
            routing.expert_ids,
            routing.weights,
            self.packed["gate"],
            self.packed["up"],
            self.packed["down"],
            form.limit or 0.0,
            form.alpha,
            self.biases["gate"],
            self.biases["up"],
            self.biases["down"],
            y,
        )
        return y

    def expected(self, x: F32, routing: Routing, form: SwiGLU) -> np.ndarray:
        """Row by row and expert by expert in float64; activations rounded as the kernels do."""
        y = np.zeros(x.shape)
        for row in range(len(x)):
            for e, weight in zip(routing.expert_ids[row], routing.weights[row], strict=True):
                gate, up = (self._product(name, e, x[row]) for name in ("gate", "up"))
                hidden = swiglu(gate.astype(np.float32), up.astype(np.float32), form)
                y[row] += weight * self._product("down", e, hidden)
        return y

    def _product(self, name: str, expert: int, x: F32) -> np.ndarray:
        bias = self.biases[name]
        y = self.values[name][expert] @ activations(self.types[name], x[None])[0]
        return np.asarray(y if bias is None else y + bias[expert])


def routing_of(n_tok: int) -> Routing:
    """Distinct random experts for each row; expert 2 receives none."""
    usable = np.delete(np.arange(N_EXPERT), 2)
    ids = np.stack(
        [
            np.sort(np.random.default_rng(int(seed)).permutation(usable)[:N_USED])
            for seed in tokens("routing", n_tok, 10_000)
        ]
    )
    return Routing(ids.astype(np.int64), affine("weights", (n_tok, N_USED), 0.5, 0.4))


def sizes_of(type_name: str) -> tuple[int, int]:
    """n_embd and n_ff, odd where the type allows."""
    n = TYPES[type_name].n_per_block
    return {1: (33, 18), 32: (96, 160), 64: (192, 128)}.get(n, (n, 2 * n))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", [*QUANTISED, "F32"])
@pytest.mark.parametrize(("form", "biased"), [(SwiGLU(), False), (CLAMPED, True)])
def test_experts_equal_float64(level: str, type_name: str, form: SwiGLU, biased: bool) -> None:
    """A hidden value at a rounding border may take the other int8 code: 1 % of its block."""
    n_embd, n_ff = sizes_of(type_name)
    layer = Layer(type_name, n_embd, n_ff, biased=biased)
    for n_tok in (1, 2, 50) if type_name in ("MXFP4", "Q4_K", "F32") else (1, 20):
        x, routing = affine("x", (n_tok, n_embd), 0.0, 1.0), routing_of(n_tok)
        expected = layer.expected(x, routing, form)
        error = np.abs(layer.run(level, x, routing, form) - expected).max()
        tolerance = 1e-5 if type_name == "F32" else 1e-3
        assert error <= tolerance * np.abs(expected).max(), (n_tok, error)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", ["MXFP4", "Q5_0", "Q2_K", "IQ2_XS", "IQ4_XS", "TQ1_0"])
def test_a_row_has_the_same_bits_alone_and_among_many(level: str, type_name: str) -> None:
    n_embd, n_ff = sizes_of(type_name)
    layer = Layer(type_name, n_embd, n_ff, biased=True)
    x, routing = affine("x", (90, n_embd), 0.0, 1.0), routing_of(90)
    together = layer.run(level, x, routing, CLAMPED)
    for start, end in ((0, 1), (5, 9), (40, 90), (89, 90)):
        part = Routing(routing.expert_ids[start:end], routing.weights[start:end])
        alone = layer.run(level, x[start:end], part, CLAMPED, n_threads=1)
        np.testing.assert_array_equal(alone, together[start:end])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "types", [("Q4_K", "Q6_K", "Q2_K"), ("MXFP4", "Q8_0", "F16"), ("F32", "Q4_1", "Q5_0")]
)
def test_gate_up_and_down_may_be_of_different_types(
    level: str, types: tuple[str, str, str]
) -> None:
    layer = Layer(types, 768, 256, biased=True)
    x, routing = affine("x", (11, 768), 0.0, 1.0), routing_of(11)
    expected = layer.expected(x, routing, CLAMPED)
    error = np.abs(layer.run(level, x, routing, CLAMPED) - expected).max()
    assert error <= 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type_name", ["Q4_K", "MXFP4", "F32"])
@pytest.mark.parametrize("n_tok", [127, 128, 129, 261])
def test_an_expert_that_all_rows_choose(level: str, type_name: str, n_tok: int) -> None:
    """Its rows are multiplied in several bands."""
    n_embd, n_ff = sizes_of(type_name)
    layer = Layer(type_name, n_embd, n_ff, biased=True)
    ids = np.tile(np.array([0, 3, 6], np.int64), (n_tok, 1))
    x, routing = affine("x", (n_tok, n_embd), 0.0, 1.0), Routing(ids, routing_of(n_tok).weights)
    together = layer.run(level, x, routing, CLAMPED)
    for row in (0, 126, n_tok - 1):
        part = Routing(ids[row : row + 1], routing.weights[row : row + 1])
        alone = layer.run(level, x[row : row + 1], part, CLAMPED, n_threads=1)
        np.testing.assert_array_equal(alone[0], together[row])


def test_expert_ids_out_of_range_are_refused() -> None:
    layer = Layer("F32", 33, 18, biased=False)
    bad = Routing(np.full((1, 1), N_EXPERT, np.int64), np.ones((1, 1), np.float32))
    with pytest.raises(ValueError, match="experts: id 7 of 7 experts"):
        layer.run("portable", np.zeros((1, 33), np.float32), bad, SwiGLU())
