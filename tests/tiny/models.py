"""The tiny models by name, and how to write each as safetensors or GGUF.

    TINY["qwen35moe_ratio2"].write_safetensors(tmp_path / "model")
    TINY["qwen35moe_ratio2"].write_gguf(tmp_path / "model.gguf")
    MIXES["qwen35moe_q4_k"].write_gguf(tmp_path / "model.gguf")

Needs NumPy, and `gguf` for GGUF files; no torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tests.tiny import configs, gpt2, qwen3_configs
from tests.tiny.gguf_metadata import architecture, metadata
from tests.tiny.gguf_writer import GGUFTensor, Packed, write_gguf
from tests.tiny.random_weights import BLOCK_SHAPES, F32, I64, U8, block_bytes, random_bytes, tokens
from tests.tiny.safetensors_writer import write_folder
from tests.tiny.to_gguf import convert
from tests.tiny.weights import split_experts, table, text_config, to_bf16_values

Arrays = Mapping[str, npt.NDArray[Any]]
Draft = Literal["none", "shipped", "only in metadata"]
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@dataclass(frozen=True)
class TinyModel:
    """A random model: `stored` says how its experts lie in safetensors.

    merged       as transformers saves them
    one by one   a tensor an expert, part and layer (Qwen)
    mxfp4        blocks and scales, everything else bfloat16 (gpt-oss)
    mxfp4 twin   the same values as the bf16 form, in float32 (gpt-oss)
    """

    name: str
    config: Mapping[str, Any]
    stored: Literal["merged", "one by one", "mxfp4", "mxfp4 twin"] = "merged"

    @property
    def n_vocab(self) -> int:
        """Size of the vocabulary."""
        return int(text_config(self.config)["vocab_size"])

    def tokens(self, n: int) -> I64:
        """The first n tokens of the sequence that goldens use, int64 [n]."""
        return tokens(self.golden + "/tokens", n, self.n_vocab)

    @property
    def golden(self) -> str:
        """The name of its goldens, and of its random streams: a twin shares its original's."""
        return self.name.removesuffix("_twin")

    def hf_tensors(self) -> dict[str, npt.NDArray[Any]]:
        """All tensors by safetensors name, in safetensors layout: float32, uint8 for MXFP4."""
        fills = table(self.config)
        if self.stored == "one by one":
            fills = split_experts(fills)
        out: dict[str, npt.NDArray[Any]] = {}
        for name, fill in fills.items():
            packed = self.stored.startswith("mxfp4") and name.endswith(("up_proj", "down_proj"))
            if packed:
                out |= self._experts(name, fill.shape, fill.spread / 3**0.5)
                continue
            values = fill.make(f"{self.golden}/{name}")
            out[name] = to_bf16_values(values) if self.stored.startswith("mxfp4") else values
        return out

    def _experts(self, name: str, shape: tuple[int, ...], std: float) -> Arrays:
        n_expert, n_in, n_out = shape
        lead = (n_expert, n_out, n_in // 32)
        n = n_expert * n_out * (n_in // 32)
        blocks = random_bytes(f"{self.golden}/{name}_blocks", n * 16).reshape(*lead, 16)
        exponents = random_bytes(f"{self.golden}/{name}_scales", n).reshape(lead) % 3
        scales = (exponents + np.uint8(round(126 + float(np.log2(std / 2.9))))).astype(np.uint8)
        if self.stored == "mxfp4":
            return {name + "_blocks": blocks, name + "_scales": scales}
        rows = publisher_mxfp4_values(blocks, scales)  # [n_expert, n_out, n_in]
        return {name: np.ascontiguousarray(rows.swapaxes(1, 2))}

    def write_safetensors(self, folder: Path, shards: int = 1) -> Path:
        """Write a checkpoint folder and return it."""
        bf16 = self.stored == "mxfp4"
        write_folder(folder, self.config, self.hf_tensors(), shards=shards, bf16=bf16)
        return folder

    def write_gguf(
        self,
        path: Path,
        *,
        types: Mapping[str, str] | None = None,
        dequantized: bool = False,
        fuse_gate_up: bool = False,
        draft: Draft = "none",
    ) -> Path:
        """Write one GGUF file and return its path.

        types         pattern of GGUF tensor names -> block type, first match wins: these tensors
                      become random blocks of that type, in place of the model's values
        dequantized   write every block tensor as the float32 values it stands for
        fuse_gate_up  Qwen: `ffn_gate_up_exps` in place of its two halves
        draft         Qwen: whether a draft layer is counted, and whether it is there
        """
        tensors = self.gguf_tensors(types=types, fuse_gate_up=fuse_gate_up, draft=draft)
        if dequantized:
            tensors = {n: t.float32() if isinstance(t, Packed) else t for n, t in tensors.items()}
        keys = metadata(self.config, n_nextn=int(draft != "none"))
        write_gguf(path, architecture(self.config), keys, tensors)
        return path

    def gguf_tensors(
        self,
        *,
        types: Mapping[str, str] | None = None,
        fuse_gate_up: bool = False,
        draft: Draft = "none",
    ) -> dict[str, GGUFTensor]:
        """The tensors `write_gguf` writes, before any dequantisation."""
        converted = convert(self.config, self.hf_tensors(), draft=draft == "shipped")
        out: dict[str, GGUFTensor] = {}
        for name, values in converted.items():
            type_name = next((t for p, t in (types or {}).items() if fnmatch(name, p)), None)
            if type_name not in (None, "F32"):
                out[name] = _random_rows(f"{self.golden}/{name}/{type_name}", values, type_name)
            else:
                out[name] = Packed("MXFP4", values) if values.dtype == np.uint8 else values
        return _fuse(out) if fuse_gate_up else out


def publisher_mxfp4_values(blocks: U8, scales: U8) -> F32:
    """Values of MXFP4 in the publisher's layout, float32 [..., 32 * n_block].

    blocks [..., n_block, 16], scales [..., n_block]; a byte holds elements 2i (low nibble) and
    2i+1 (high).
    """
    pairs = np.stack([E2M1[blocks & 15], E2M1[blocks >> 4]], axis=-1)
    values = pairs.reshape(*blocks.shape[:-1], 32)
    scaled = np.ldexp(values, scales[..., None].astype(np.int32) - 127)
    return np.asarray(scaled.reshape(*blocks.shape[:-2], -1), np.float32)


def _random_rows(name: str, values: F32, type_name: str) -> Packed:
    per_block, n_bytes = BLOCK_SHAPES[type_name]
    *lead, n_in = values.shape
    if n_in % per_block:
        raise ValueError(f"{name}: rows of {n_in} are no multiple of {per_block}")
    std = float(np.std(values))
    blocks = block_bytes(name, values.size // per_block, type_name, std)
    return Packed(type_name, blocks.reshape(*lead, n_in // per_block * n_bytes))


def _fuse(tensors: Mapping[str, GGUFTensor]) -> dict[str, GGUFTensor]:
    out = dict(tensors)
    for name in tensors:
        if name.endswith("ffn_gate_exps.weight"):
            gate, up = out.pop(name), out.pop(name.replace("gate_exps", "up_exps"))
            fused = name.replace("gate_exps", "gate_up_exps")
            if isinstance(gate, Packed) and isinstance(up, Packed):
                rows = np.concatenate([gate.rows, up.rows], axis=1)
                out[fused] = Packed(gate.type_name, rows)
            elif not isinstance(gate, Packed) and not isinstance(up, Packed):
                out[fused] = np.concatenate([gate, up], axis=1)
    return out


@dataclass(frozen=True)
class Mix:
    """A quantised GGUF: a model, and which tensors are blocks of which type."""

    name: str
    model: TinyModel
    types: Mapping[str, str]

    def write_gguf(self, path: Path) -> Path:
        """Write the quantised file and return its path."""
        return self.model.write_gguf(path, types=self.types)

    def write_twin(self, path: Path) -> Path:
        """Write the float32 file of the same values and return its path."""
        return self.model.write_gguf(path, types=self.types, dequantized=True)


_MODELS = (
    TinyModel("qwen35moe_ratio1", configs.QWEN_RATIO_1),
    TinyModel("qwen35moe_ratio2", configs.QWEN_RATIO_2),
    TinyModel("qwen35moe_ratio4", configs.QWEN_RATIO_4, "one by one"),
    TinyModel("qwen35moe_wide", configs.QWEN_WIDE),
    TinyModel("gpt_oss_window128", configs.GPT_OSS_128),
    TinyModel("gpt_oss_window32", configs.GPT_OSS_32),
    TinyModel("gpt_oss_mxfp4", configs.GPT_OSS_MXFP4, "mxfp4"),
    TinyModel("gpt_oss_mxfp4_twin", configs.GPT_OSS_MXFP4_TWIN, "mxfp4 twin"),
    TinyModel("llama_tied", configs.LLAMA_TIED),
    TinyModel("llama_untied", configs.LLAMA_UNTIED),
    TinyModel("qwen3", qwen3_configs.QWEN3),
    TinyModel("qwen3moe", qwen3_configs.QWEN3_MOE, "one by one"),
    TinyModel("qwen35", qwen3_configs.QWEN35),
    TinyModel("qwen3next", qwen3_configs.QWEN3_NEXT, "one by one"),
    TinyModel("gpt2", gpt2.CONFIG),
)
TINY: dict[str, TinyModel] = {model.name: model for model in _MODELS}


def _with_draft(name: str) -> TinyModel:
    original = TINY[name]
    config = {**original.config, "mtp_num_hidden_layers": 1}
    return TinyModel(f"{name}_draft", config, original.stored)


DRAFTING: dict[str, TinyModel] = {
    "qwen35moe_ratio2": TINY["qwen35moe_ratio2"],
    **{model.name: model for model in map(_with_draft, ("qwen35", "qwen3next"))},
}
"""Models whose checkpoints hold a draft head."""

_QWEN_Q8_ROWS = {"*shexp.weight": "Q8_0", "*ssm_alpha.weight": "Q8_0", "*ssm_beta.weight": "Q8_0"}


def _qwen_mix(low: str, high: str) -> dict[str, str]:
    """`low` for most matrices, `high` where quantisers spend more; Q8_0 where rows are short."""
    return {
        "*ffn_gate_inp*": "F32",
        **_QWEN_Q8_ROWS,
        "output.weight": high,
        **{f"*{part}.weight": high for part in ("attn_v", "ffn_down_exps", "attn_gate")},
        **{f"*{part}.weight": low for part in ("attn_q", "attn_k", "attn_output", "attn_qkv")},
        **{f"*{part}.weight": low for part in ("ssm_out", "gate_exps", "up_exps", "token_embd")},
    }


_MIXES = (
    Mix("qwen35moe_q8_0", TINY["qwen35moe_wide"], _qwen_mix("Q8_0", "Q8_0")),
    Mix("qwen35moe_q4_k", TINY["qwen35moe_wide"], _qwen_mix("Q4_K", "Q6_K")),
    Mix("qwen35moe_q6_k", TINY["qwen35moe_wide"], _qwen_mix("Q6_K", "Q8_0")),
    Mix("qwen35moe_q4_0", TINY["qwen35moe_wide"], _qwen_mix("Q4_0", "Q4_1")),
    Mix(
        "gpt_oss_mxfp4_q8_0",
        TINY["gpt_oss_mxfp4_twin"],
        {"*ffn_gate_inp.weight": "F32", "*exps.weight": "MXFP4", "*attn_?.weight": "Q8_0"}
        | {f"*{part}.weight": "Q8_0" for part in ("attn_output", "token_embd", "output")},
    ),
)
MIXES: dict[str, Mix] = {mix.name: mix for mix in _MIXES}

_OTHER_PAIRS = (
    ("Q5_K", "Q5_1"),
    ("Q3_K", "Q5_0"),
    ("Q2_K", "IQ4_NL"),
    ("IQ4_XS", "NVFP4"),
    ("IQ3_XXS", "IQ3_S"),
    ("IQ2_XS", "IQ2_S"),
    ("IQ1_M", "IQ2_XXS"),
    ("IQ1_S", "TQ2_0"),
    ("TQ1_0", "Q5_K"),
)
_OTHER_MIXES = (
    Mix(f"qwen35moe_{low}_{high}".lower(), TINY["qwen35moe_wide"], _qwen_mix(low, high))
    for low, high in _OTHER_PAIRS
)
MIXES_WITHOUT_GOLDEN: dict[str, Mix] = {mix.name: mix for mix in _OTHER_MIXES}
"""The other types of blocks: compared with the reference, whose decoding has goldens of its own."""
