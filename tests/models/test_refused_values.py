"""Values of GGUF metadata and config.json that the architectures do not implement, one line each.

`K.` stands for the architecture's prefix, "__" in a key for a dot, `...` for a key that is removed.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.models.fakes import ONE_EACH, refusal, tiny_checkpoint, tiny_gguf
from tests.tiny.models import TINY

Json = dict[str, Any]

Change = Mapping[str, Any]

GGUF_VALUES: list[tuple[str, Change, str]] = [
    ("qwen35moe", {"block_count": 2**31}, "'K.block_count' is 2147483648, expected 1 to 4096"),
    ("gpt-oss", {"block_count": 2**31}, "'K.block_count' is 2147483648, expected 1 to 4096"),
    ("llama", {"block_count": 2**31}, "'K.block_count' is 2147483648, expected 1 to 4096"),
    ("qwen35moe", {"block_count": 0}, "'K.block_count' is 0, expected 1 to 4096"),
    ("qwen35moe", {"block_count": None}, "key 'K.block_count' is missing"),
    (
        "qwen35moe",
        {"block_count": 1, "nextn_predict_layers": 1},
        "'K.block_count' is 1, expected 2 to 4096",
    ),
    (
        "qwen35moe",
        {"nextn_predict_layers": 17},
        "'K.nextn_predict_layers' is 17, expected 0 to 16",
    ),
    (
        "qwen35moe",
        {"attention__head_count": 0},
        "'K.attention.head_count' is 0, expected 1 to 2147483647",
    ),
    (
        "gpt-oss",
        {"attention__head_count_kv": 0},
        "'K.attention.head_count_kv' is 0, expected 1 to 2147483647",
    ),
    (
        "llama",
        {"attention__head_count": 0},
        "'K.attention.head_count' is 0, expected 1 to 2147483647",
    ),
    (
        "qwen35moe",
        {"attention__head_count": 7},
        "n_head / n_head_kv is 7 / 2, expected a whole number",
    ),
    (
        "gpt-oss",
        {"attention__head_count": 7},
        "n_head / n_head_kv is 7 / 2, expected a whole number",
    ),
    (
        "llama",
        {"attention__head_count": 7},
        "n_head / n_head_kv is 7 / 2, expected a whole number",
    ),
    (
        "qwen35moe",
        {"ssm__time_step_rank": 7, "ssm__inner_size": 112},
        "DeltaNet's value heads / key heads is 7 / 5, expected a whole number",
    ),
    ("qwen35moe", {"ssm__inner_size": 64}, "'K.ssm.inner_size' is 64, expected 80"),
    ("qwen35moe", {"expert_used_count": 8}, "8 experts used, expected at most 7"),
    ("gpt-oss", {"expert_used_count": 9}, "9 experts used, expected at most 7"),
    ("qwen35moe", {"expert_gating_func": 2}, "'K.expert_gating_func' is 2, expected 1"),
    ("qwen35moe", {"expert_weights_norm": False}, "'K.expert_weights_norm' is False, expected"),
    (
        "qwen35moe",
        {"expert_weights_scale": 0.0},
        "'K.expert_weights_scale' is 0.0, expected a finite number above 0",
    ),
    ("qwen35moe", {"rope__scaling__type": "yarn"}, "'K.rope.scaling.type' is 'yarn', expected"),
    ("gpt-oss", {"rope__scaling__type": "linear"}, "'K.rope.scaling.type' is 'linear', expected"),
    ("llama", {"rope__scaling__type": "linear"}, "'K.rope.scaling.type' is 'linear', expected"),
    ("qwen35moe", {"attention__value_length": 32}, "'K.attention.value_length' is 32, expected 24"),
    ("gpt-oss", {"attention__value_length": 32}, "'K.attention.value_length' is 32, expected 16"),
    ("llama", {"attention__value_length": 32}, "'K.attention.value_length' is 32, expected 18"),
    (
        "llama",
        {"rope__dimension_count": 6},
        "'K.rope.dimension_count' is 6, expected 18",
    ),
    (
        "qwen35moe",
        {"rope__dimension_count": 5},
        "5 rotary dimensions, expected an even number from 2 to head_dim = 24",
    ),
    (
        "qwen35moe",
        {"rope__dimension_count": 26},
        "26 rotary dimensions, expected an even number from 2 to head_dim = 24",
    ),
    (
        "gpt-oss",
        {"attention__key_length": 15, "attention__value_length": 15},
        "head_dim is 15, expected an even number",
    ),
    ("gpt-oss", {"feed_forward_length": 45}, "'K.feed_forward_length' is 45, expected 44"),
    ("llama", {"expert_count": 8}, "'K.expert_count' is 8, expected 0"),
    ("llama", {"vocab_size": 264}, "'K.vocab_size' is 264, expected 263"),
    ("qwen35moe", {"rope__freq_base": math.nan}, "is nan, expected a finite number above 1"),
    ("gpt-oss", {"rope__freq_base": math.inf}, "is inf, expected a finite number above 1"),
    ("llama", {"rope__freq_base": -1.0}, "'K.rope.freq_base' is -1.0, expected a finite number"),
    ("gpt-oss", {"rope__freq_base": 1.0}, "'K.rope.freq_base' is 1.0, expected a finite number"),
    ("gpt-oss", {"rope__scaling__factor": math.nan}, "'K.rope.scaling.factor' is nan, expected"),
    ("gpt-oss", {"rope__scaling__factor": None}, "key 'K.rope.scaling.factor' is missing"),
    (
        "gpt-oss",
        {"attention__sliding_window": 0},
        "'K.attention.sliding_window' is 0, expected 1 to 2147483647",
    ),
    (
        "qwen35moe",
        {"attention__layer_norm_rms_epsilon": 0.0},
        "'K.attention.layer_norm_rms_epsilon' is 0.0, expected a finite number above 0",
    ),
    ("llama", {"embedding_length": "56"}, "'K.embedding_length' is '56', expected a whole number"),
    ("llama", {"embedding_length": True}, "'K.embedding_length' is True, expected a whole number"),
    ("llama", {"embedding_length": 56.0}, "'K.embedding_length' is 56.0, expected a whole number"),
    ("llama", {"rope__freq_base": "1e4"}, "'K.rope.freq_base' is '1e4', expected a number"),
    ("llama", {"rope__freq_base": True}, "'K.rope.freq_base' is True, expected a number"),
    (
        "qwen35moe",
        {"full_attention_interval": 0},
        "'K.full_attention_interval' is 0, expected 1 to 2147483647",
    ),
    ("qwen35moe", {"full_attention_interval": None}, "'K.full_attention_interval' is missing"),
    (
        "qwen35moe",
        {"attention__recurrent_layers": np.array([True, False])},
        "recurrent_layers has 2 entries for 4 blocks",
    ),
    (
        "qwen35moe",
        {"attention__recurrent_layers": np.array([1.0, 0.0])},
        "'K.attention.recurrent_layers' is [1.0, 0.0], expected a list of whole numbers",
    ),
    (
        "qwen35moe",
        {"rope__dimension_sections": "11"},
        "'K.rope.dimension_sections' is '11', expected a list of whole numbers",
    ),
    ("qwen3", {"attention__head_count": 7}, "n_head / n_head_kv is 7 / 2, expected a whole"),
    ("qwen3", {"rope__scaling__type": "yarn"}, "'K.rope.scaling.type' is 'yarn', expected 'none'"),
    ("qwen3", {"rope__dimension_count": 12}, "'K.rope.dimension_count' is 12, expected 22"),
    ("qwen3moe", {"attention__value_length": 16}, "'K.attention.value_length' is 16, expected 18"),
    ("qwen3moe", {"expert_used_count": 10}, "10 experts used, expected at most 9"),
    ("qwen3moe", {"expert_weights_norm": False}, "'K.expert_weights_norm' is False, expected"),
    ("qwen35", {"feed_forward_length": None}, "key 'K.feed_forward_length' is missing"),
    ("qwen35", {"ssm__inner_size": 70}, "'K.ssm.inner_size' is 70, expected 84"),
    ("qwen3next", {"expert_gating_func": 2}, "'K.expert_gating_func' is 2, expected 1"),
    (
        "qwen3next",
        {"ssm__time_step_rank": 7, "ssm__inner_size": 154},
        "DeltaNet's value heads / key heads is 7 / 2, expected a whole number",
    ),
    ("gpt2", {"attention__head_count": 7}, "n_embd / n_head is 60 / 7, expected a whole number"),
    ("gpt2", {"attention__head_count_kv": 1}, "'K.attention.head_count_kv' is 1, expected 5"),
    ("gpt2", {"attention__layer_norm_epsilon": None}, "layer_norm_epsilon' is missing"),
    # per layer, as some families have it; an array once failed inside a comparison
    (
        "qwen35moe",
        {"attention__head_count_kv": np.arange(40, dtype=np.int32)},
        "'K.attention.head_count_kv' is array([ 0, 1, 2, ",
    ),
    (
        "gpt-oss",
        {"attention__value_length": np.array([16, 16])},
        "'K.attention.value_length' is array([16, 16]), expected 16",
    ),
]


@pytest.mark.parametrize(
    ("name", "change", "problem"), GGUF_VALUES, ids=[f"{n}-{c}" for n, c, _ in GGUF_VALUES]
)
def test_metadata_value_is_refused(name: str, change: Change, problem: str) -> None:
    message = refusal(tiny_gguf(ONE_EACH[name], **change))
    assert message.startswith("fake.gguf: ")
    assert problem.replace("K.", f"{name}.") in message


def changed(config: Mapping[str, Any], path: str, value: object) -> Json:
    """A copy of a config.json with the value at a dotted path set, or removed for `...`."""
    copy: Json = json.loads(json.dumps(config))
    *sections, key = path.split(".")
    place = copy
    for section in sections:
        place = place[section]
    if value is ...:
        del place[key]
    else:
        place[key] = value
    return copy


FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
LINEAR, FULL, SLIDING = "linear_attention", "full_attention", "sliding_attention"

HF_VALUES: list[tuple[str, str, object, str]] = [
    ("qwen35moe_ratio1", "hidden_act", "gelu", "'hidden_act' is 'gelu', expected 'silu'"),
    ("gpt_oss_window128", "hidden_act", "gelu", "'hidden_act' is 'gelu', expected 'silu'"),
    ("llama_untied", "hidden_act", "gelu", "'hidden_act' is 'gelu', expected 'silu'"),
    ("qwen35moe_ratio1", "attention_bias", True, "'attention_bias' is True, expected False"),
    ("gpt_oss_window128", "attention_bias", False, "'attention_bias' is False, expected True"),
    ("llama_untied", "attention_bias", True, "'attention_bias' is True, expected False"),
    ("llama_untied", "mlp_bias", True, "'mlp_bias' is True, expected False"),
    ("qwen35moe_ratio1", "attn_output_gate", False, "'attn_output_gate' is False, expected True"),
    ("qwen35moe_ratio1", "mlp_only_layers", [1], "'mlp_only_layers' is [1], expected []"),
    ("qwen35moe_ratio1", "decoder_sparse_step", 2, "'decoder_sparse_step' is 2, expected 1"),
    ("qwen35moe_ratio1", "norm_topk_prob", False, "'norm_topk_prob' is False, expected True"),
    ("gpt_oss_window128", "tie_word_embeddings", True, "is True, expected False"),
    ("qwen35moe_ratio1", "tie_word_embeddings", 1, "is 1, expected true or false"),
    ("qwen35moe_ratio1", "rope_parameters.rope_type", "yarn", "'rope_type' is 'yarn', expected"),
    ("qwen35moe_ratio1", "rope_parameters.mrope_interleaved", False, "is False, expected True"),
    ("qwen35moe_ratio4", "rope_scaling.rope_type", "yarn", "'rope_type' is 'yarn', expected"),
    ("qwen35moe_ratio4", "rope_scaling.type", "yarn", "'type' is 'yarn', expected"),
    ("qwen35moe_ratio4", "rope_scaling.mrope_interleaved", False, "is False, expected True"),
    ("gpt_oss_window128", "rope_scaling.rope_type", "linear", "'rope_type' is 'linear', expected"),
    ("gpt_oss_window128", "rope_scaling", None, "key 'rope_scaling' is missing"),
    ("gpt_oss_window128", "rope_scaling", "yarn", "'rope_scaling' is 'yarn', expected an object"),
    ("gpt_oss_window32", "rope_parameters.factor", ..., "key 'factor' is missing"),
    ("llama_tied", "rope_scaling", {"type": "linear", "factor": 2.0}, "'type' is 'linear', expec"),
    ("llama_untied", "rope_parameters.rope_type", "yarn", "'rope_type' is 'yarn', expected"),
    ("llama_untied", "rope_parameters.factor", ..., "key 'factor' is missing"),
    (
        "llama_untied",
        "rope_parameters.low_freq_factor",
        4.0,
        "low_freq_factor is 4.0, expected less than high_freq_factor = 4.0",
    ),
    ("qwen35moe_ratio1", "quantization_config", FP8, "'quantization_config' is {'quant_method':"),
    ("qwen35moe_ratio2", "quantization_config", FP8, "'quantization_config' is {'quant_method':"),
    ("gpt_oss_mxfp4", "quantization_config", FP8, "'quant_method' is 'fp8', expected 'mxfp4'"),
    ("llama_untied", "quantization_config", FP8, "'quantization_config' is {'quant_method':"),
    ("qwen35moe_ratio1", "layer_types", [LINEAR] * 3, "layer_types has 3 entries for 4 layers"),
    ("gpt_oss_window128", "layer_types", [FULL] * 5, "layer_types has 5 entries for 4 layers"),
    (
        "qwen35moe_ratio1",
        "layer_types",
        [LINEAR, LINEAR, SLIDING, FULL],
        "'layer_types[2]' is 'sliding_attention', expected 'linear_attention' or 'full_attention'",
    ),
    (
        "gpt_oss_window128",
        "layer_types",
        [SLIDING, LINEAR, SLIDING, FULL],
        "'layer_types[1]' is 'linear_attention', expected 'sliding_attention' or 'full_attention'",
    ),
    ("gpt_oss_window128", "layer_types", ..., "key 'layer_types' is missing"),
    ("gpt_oss_window128", "layer_types", SLIDING, "expected a list of names"),
    ("qwen35moe_ratio1", "num_hidden_layers", 2**31, "is 2147483648, expected 1 to 4096"),
    ("gpt_oss_window128", "num_hidden_layers", 2**31, "is 2147483648, expected 1 to 4096"),
    ("qwen35moe_ratio1", "num_attention_heads", 7, "n_head / n_head_kv is 7 / 2, expected"),
    ("qwen35moe_ratio1", "num_attention_heads", 0, "is 0, expected 1 to 2147483647"),
    ("qwen35moe_ratio1", "num_experts_per_tok", 8, "8 experts used, expected at most 7"),
    ("gpt_oss_window128", "num_experts_per_tok", 8, "8 experts used, expected at most 7"),
    ("qwen35moe_ratio1", "linear_value_head_dim", 17, "is 17, expected 16"),
    (
        "qwen35moe_ratio1",
        "rope_parameters.partial_rotary_factor",
        0.21,
        "5 rotary dimensions, expected an even number from 2 to head_dim = 24",
    ),
    (
        "qwen35moe_ratio1",
        "rope_parameters.partial_rotary_factor",
        0.01,
        "0 rotary dimensions, expected an even number from 2 to head_dim = 24",
    ),
    ("qwen35moe_ratio1", "rope_parameters.partial_rotary_factor", 1.5, "36 rotary dimensions"),
    ("llama_untied", "head_dim", 17, "head_dim is 17, expected an even number"),
    ("qwen35moe_ratio1", "rms_norm_eps", 0, "is 0, expected a finite number above 0"),
    ("gpt_oss_window128", "rms_norm_eps", -1e-5, "is -1e-05, expected a finite number above 0"),
    ("llama_untied", "rms_norm_eps", 10**400, "expected a finite number above 0"),
    ("qwen35moe_ratio1", "rope_parameters.rope_theta", math.nan, "is nan, expected a finite"),
    ("gpt_oss_window128", "rope_theta", -3, "is -3, expected a finite number above 1"),
    ("gpt_oss_window128", "rope_theta", ..., "key 'rope_theta' is missing"),
    ("gpt_oss_window128", "swiglu_limit", 0, "'swiglu_limit' is 0, expected a finite number"),
    ("gpt_oss_window128", "rope_scaling.truncate", 0, "'truncate' is 0, expected true or false"),
    ("qwen35moe_ratio1", "hidden_size", "56", "'hidden_size' is '56', expected a whole number"),
    ("qwen35moe_ratio1", "hidden_size", True, "'hidden_size' is True, expected a whole number"),
    ("qwen35moe_ratio1", "hidden_size", 56.0, "'hidden_size' is 56.0, expected a whole number"),
    ("qwen35moe_ratio1", "hidden_size", ..., "key 'hidden_size' is missing"),
    ("qwen35moe_ratio1", "hidden_size", None, "key 'hidden_size' is missing"),
    ("qwen35moe_ratio1", "hidden_size", ["5" * 999], "'hidden_size' is ['5555"),
    ("qwen3", "use_sliding_window", True, "'use_sliding_window' is True, expected False"),
    ("qwen3", "rope_scaling", {"rope_type": "yarn", "factor": 4.0}, "'rope_type' is 'yarn', exp"),
    ("qwen3", "layer_types", [FULL, SLIDING, FULL], "is 'sliding_attention', expected 'full_att"),
    ("qwen3", "attention_bias", True, "'attention_bias' is True, expected False"),
    ("qwen3", "head_dim", 21, "head_dim is 21, expected an even number"),
    ("qwen3moe", "norm_topk_prob", False, "'norm_topk_prob' is False, expected True"),
    ("qwen3moe", "norm_topk_prob", ..., "key 'norm_topk_prob' is missing"),
    ("qwen3moe", "mlp_only_layers", [0], "'mlp_only_layers' is [0], expected []"),
    ("qwen3moe", "decoder_sparse_step", 2, "'decoder_sparse_step' is 2, expected 1"),
    ("qwen3moe", "quantization_config", FP8, "'quantization_config' is {'quant_method':"),
    ("qwen35", "attn_output_gate", False, "'attn_output_gate' is False, expected True"),
    ("qwen35", "intermediate_size", ..., "key 'intermediate_size' is missing"),
    ("qwen3next", "linear_value_head_dim", 24, "is 24, expected 22"),
    ("qwen3next", "norm_topk_prob", False, "'norm_topk_prob' is False, expected True"),
    ("qwen3next", "num_experts_per_tok", 9, "9 experts used, expected at most 8"),
    ("gpt2", "activation_function", "gelu", "'activation_function' is 'gelu', expected 'gelu_new"),
    ("gpt2", "scale_attn_weights", False, "'scale_attn_weights' is False, expected True"),
    ("gpt2", "scale_attn_by_inverse_layer_idx", True, "is True, expected False"),
    ("gpt2", "add_cross_attention", True, "'add_cross_attention' is True, expected False"),
    ("gpt2", "tie_word_embeddings", False, "'tie_word_embeddings' is False, expected True"),
    ("gpt2", "n_ctx", 512, "'n_ctx' is 512, expected 1024"),
    ("gpt2", "n_head", 7, "n_embd / n_head is 60 / 7, expected a whole number"),
    ("qwen35moe_ratio2", "text_config", [], "'text_config' is [], expected an object"),
    ("qwen35moe_ratio2", "text_config.hidden_act", "gelu", "text_config: 'hidden_act' is 'gelu'"),
    ("qwen35moe_ratio2", "text_config.rope_parameters.rope_theta", ..., "text_config: rope_param"),
]


@pytest.mark.parametrize(
    ("name", "path", "value", "problem"),
    HF_VALUES,
    ids=[f"{n}-{p}={v!r:.20}" for n, p, v, _ in HF_VALUES],
)
def test_config_value_is_refused(name: str, path: str, value: object, problem: str) -> None:
    tiny = TINY[name]
    message = refusal(tiny_checkpoint(tiny, changed(tiny.config, path, value)))
    assert message.startswith("config.json: ")
    assert problem in message
