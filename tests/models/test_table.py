"""The table that maps tensors to fields, on an architecture of three tensors a layer."""

# Fields are declared by a call, as in the model files.
# ruff: noqa: RUF009

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from junto.errors import ModelError
from junto.formats.tensor import Tensor
from junto.models.layouts import each
from junto.models.table import Dialect, Ignored, Located, Source, Table, one, sizes, stored
from tests.models.fakes import lazy


@dataclass(frozen=True)
class Config:
    n_layer: int = 2
    n_embd: int = 5
    n_ff: int = 3
    n_head: int = 4
    n_expert: int = 2
    tied: bool = False


def upper_rows(cfg: Config, fused: Tensor) -> Any:
    return each(fused, lambda expert: expert[cfg.n_ff :])


def join(cfg: Config, *parts: Tensor) -> Tensor:
    """Stand-in for a conversion of several tensors to one."""
    return lazy("+".join(part.name for part in parts), (cfg.n_ff, cfg.n_embd))


@dataclass
class Layer:
    norm: Any = stored("n_embd", hf="the_norm.weight")
    up: Any = stored(
        "n_expert, n_ff, n_embd",
        gguf=(
            one("up.weight"),
            one("gate_up.weight", "n_expert, 2*n_ff, n_embd", upper_rows),
            one("up.{e}.weight", "n_ff, n_embd"),
        ),
        hf=one("experts.{e}.up", "n_ff, n_embd"),
    )
    joined: Any = stored(
        "n_ff, n_embd",
        hf=Source(("blocks", "scales"), ("n_ff, n_embd, 7", "n_ff"), join),
        may_lack=lambda cfg: True,
    )


@dataclass
class Whole:
    embd: Any = stored("9, n_embd", hf="embed_tokens.weight")
    head: Any = stored("9, n_embd", hf="/head", may_lack=lambda cfg: cfg.tied)


def ignored(cfg: Config, dialect: Dialect) -> tuple[Ignored, ...]:
    return (Ignored("extra.*", "the extras", "no extras"), Ignored("quiet.*", "the quiet ones"))


TABLE = Table(Whole, lambda cfg, i: Layer, hf_prefixes=("a.b.", "a."), ignored=ignored)


def find(
    tensors: Iterable[Tensor], dialect: Dialect = "gguf", cfg: Config | None = None
) -> Located:
    by_name = {tensor.name: tensor for tensor in tensors}
    return TABLE.find(cfg or Config(), by_name, dialect, "file")


def gguf(up: list[Tensor] | None = None) -> list[Tensor]:
    """All tensors; `up` in the place of layer 1's experts."""
    merged = [lazy("blk.1.up.weight", (2, 3, 5))]
    return [
        lazy("embd.weight", (9, 5)),
        lazy("head.weight", (9, 5)),
        *(lazy(f"blk.{i}.norm.weight", (5,)) for i in range(2)),
        lazy("blk.0.up.weight", (2, 3, 5)),
        *(merged if up is None else up),
    ]


def hf(prefix: str = "a.") -> list[Tensor]:
    layers = [f"{prefix}layers.{i}." for i in range(2)]
    return [
        lazy(f"{prefix}embed_tokens.weight", (9, 5)),
        lazy("head", (9, 5)),
        *(lazy(f"{layer}the_norm.weight", (5,)) for layer in layers),
        *(lazy(f"{layer}experts.{e}.up", (3, 5)) for layer in layers for e in range(2)),
    ]


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ("n_embd", (5,)),
        ("9, n_embd", (9, 5)),
        ("2*n_ff*n_head, n_embd", (24, 5)),
        ("n_head * n_ff , 16", (12, 16)),
        ("1, 1, n_ff", (1, 1, 3)),
    ],
)
def test_sizes_multiply_attributes_and_numbers(terms: str, expected: tuple[int, ...]) -> None:
    assert sizes(terms, Config()) == expected


def test_size_that_the_config_does_not_have_is_our_mistake() -> None:
    with pytest.raises(AttributeError):
        sizes("n_embed", Config())


def test_fields_hold_their_tensors_unread() -> None:
    located = find(gguf())
    assert located.whole["embd"].name == "embd.weight"  # type: ignore[union-attr]
    assert [layer["norm"].name for layer in located.layers] == [  # type: ignore[union-attr]
        "blk.0.norm.weight",
        "blk.1.norm.weight",
    ]
    assert located.layers[0]["joined"] is None


def test_first_source_that_is_there_counts() -> None:
    """Merged before fused before one by one; what the others hold is left over."""
    fused = lazy("blk.1.gate_up.weight", (2, 6, 5))
    single = [lazy(f"blk.1.up.{e}.weight", (3, 5)) for e in range(2)]
    for up in ([fused], single):
        experts = find(gguf(up)).layers[1]["up"]
        assert isinstance(experts, Sequence)
        assert [expert.shape for expert in experts] == [(3, 5), (3, 5)]
    with pytest.raises(ModelError, match=r"not know: 'blk.1.up.0.weight', 'blk.1.up.1.weight'$"):
        find(gguf([fused, *single]))
    with pytest.raises(ModelError, match=r"does not know: 'blk.1.gate_up.weight'$"):
        find([*gguf(), fused])


@pytest.mark.parametrize(
    ("lost", "problem"),
    [
        (0, "tensor 'blk.1.up.weight' or 'blk.1.gate_up.weight' or 'blk.1.up.{e}.weight'"),
        (1, "tensor 'blk.1.up.1.weight'"),
    ],
)
def test_stack_with_an_expert_missing_is_refused(lost: int, problem: str) -> None:
    single = [lazy(f"blk.1.up.{e}.weight", (3, 5)) for e in range(2) if e != lost]
    with pytest.raises(ModelError) as raised:
        find(gguf(single))
    assert str(raised.value) == f"file: {problem} is missing"


def test_expert_of_another_shape_is_refused() -> None:
    single = [lazy("blk.1.up.0.weight", (3, 5)), lazy("blk.1.up.1.weight", (5, 3), source="part 2")]
    with pytest.raises(ModelError) as raised:
        find(gguf(single))
    assert str(raised.value) == (
        "part 2: tensor 'blk.1.up.1.weight' has shape (5, 3), expected (3, 5) = (n_ff, n_embd)"
    )


def test_expert_too_many_is_left_over() -> None:
    single = [lazy(f"blk.1.up.{e}.weight", (3, 5)) for e in range(3)]
    with pytest.raises(ModelError, match=r"does not know: 'blk.1.up.2.weight'$"):
        find(gguf(single))


def test_several_names_are_converted_together() -> None:
    both = [lazy("a.layers.1.scales", (3,)), lazy("a.layers.1.blocks", (3, 5, 7))]
    located = find([*hf(), *both], "hf")
    assert located.layers[1]["joined"].name == "a.layers.1.blocks+a.layers.1.scales"  # type: ignore[union-attr]
    for part in both:
        with pytest.raises(ModelError, match=r"tensor 'a\.layers\.1\.(blocks|scales)' is missing"):
            find([*hf(), part], "hf")


def test_conversion_to_a_wrong_shape_is_told() -> None:
    table = Table(Odd, lambda cfg, i: Layer, ("",), ignored)
    with pytest.raises(ModelError) as raised:
        table.find(Config(n_layer=0), {"odd": lazy("odd", (4, 5))}, "hf", "file")
    assert str(raised.value) == (
        "file: tensor 'odd' gives shape (3, 5), expected (6, 5) = (2*n_ff, n_embd)"
    )


@dataclass
class Odd:
    odd: Any = stored("2*n_ff, n_embd", hf=one("odd", "n_head, n_embd", join))


@pytest.mark.parametrize("prefix", ["a.b.", "a."])
def test_prefix_is_the_one_that_the_layers_have(prefix: str) -> None:
    assert find(hf(prefix), "hf").whole["embd"].name == f"{prefix}embed_tokens.weight"  # type: ignore[union-attr]
    with pytest.raises(ModelError, match=f"tensor '{prefix}embed_tokens.weight' is missing"):
        find([t for t in hf(prefix) if "embed" not in t.name], "hf")


def test_head_may_lack_only_where_the_config_says_so() -> None:
    headless = [tensor for tensor in hf() if tensor.name != "head"]
    assert find(headless, "hf", Config(tied=True)).whole["head"] is None
    with pytest.raises(ModelError, match=r"^file: tensor 'head' is missing$"):
        find(headless, "hf")


def test_ignored_tensors_are_counted_in_a_note() -> None:
    assert find(gguf()).notes == ("file: no extras",)
    one_more = find([*gguf(), lazy("extra.1", (1,))])
    assert one_more.notes == ("file: 1 tensor not used: the extras",)
    more = [lazy(name, (1,)) for name in ("extra.1", "extra.2", "quiet.1")]
    assert find([*gguf(), *more]).notes == (
        "file: 2 tensors not used: the extras",
        "file: 1 tensor not used: the quiet ones",
    )


def test_ignored_tensor_is_never_taken() -> None:
    """A tied model's own lm_head was noted as not used, and used."""
    table = Table(Whole, lambda cfg, i: Layer, ("a.",), lambda cfg, d: (Ignored("head", "tied"),))
    located = table.find(Config(tied=True), {tensor.name: tensor for tensor in hf()}, "hf", "file")
    assert located.whole["head"] is None
    assert located.notes == ("file: 1 tensor not used: tied",)
