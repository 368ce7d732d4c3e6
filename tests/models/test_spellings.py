"""One model under the several spellings that files have for it gives one config."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from junto.models import qwen3next
from junto.models.keys import Keys
from junto.models.loading import locate
from tests.data_dir import find
from tests.models.fakes import ONE_EACH, tiny_checkpoint, tiny_gguf
from tests.models.test_real_tables import gpt_oss_checkpoint, larger_table, qwen_checkpoint
from tests.tiny.models import TINY

Json = dict[str, Any]
LINEAR, FULL = "linear_attention", "full_attention"


def config_of(name: str, config: Mapping[str, Any]) -> Any:
    return locate(tiny_checkpoint(TINY[name], config)).cfg


def moved(config: Mapping[str, Any], section: str, into: str) -> Json:
    """The rope section under its other name, with rope_theta inside (newer) or beside it."""
    rest = {k: v for k, v in config.items() if k not in (section, "rope_theta")}
    rope = dict(config[section])
    theta = rope.pop("rope_theta", config.get("rope_theta"))
    if into == "rope_parameters":
        return {**rest, into: {**rope, "rope_theta": theta}}
    return {**rest, "rope_theta": theta, into: rope}


@pytest.mark.parametrize(
    ("name", "section", "into"),
    [
        ("gpt_oss_window128", "rope_scaling", "rope_parameters"),
        ("gpt_oss_window32", "rope_parameters", "rope_scaling"),
        ("llama_untied", "rope_parameters", "rope_scaling"),
        ("qwen3moe", "rope_parameters", "rope_scaling"),
    ],
)
def test_both_spellings_of_rope_give_one_config(name: str, section: str, into: str) -> None:
    config = TINY[name].config
    other = moved(config, section, into)
    assert other != config
    assert config_of(name, other) == config_of(name, config)


def test_both_spellings_of_rope_give_one_real_gpt_oss() -> None:
    file = gpt_oss_checkpoint("20b")
    newer = dataclasses.replace(file, config=moved(file.config, "rope_scaling", "rope_parameters"))
    assert locate(newer).cfg == locate(file).cfg
    assert locate(newer).notes == ()


def flat_rope(text: Mapping[str, Any]) -> Json:
    """Qwen's rope keys as they stood before `rope_parameters`."""
    rope = dict(text["rope_parameters"])
    outside = {k: rope.pop(k) for k in ("rope_theta", "partial_rotary_factor")}
    return {**{k: v for k, v in text.items() if k != "rope_parameters"}, **outside} | {
        "rope_scaling": rope
    }


def test_both_spellings_of_rope_give_one_qwen() -> None:
    tiny = TINY["qwen35moe_ratio1"]
    older = flat_rope(tiny.config)
    assert config_of("qwen35moe_ratio1", older) == config_of("qwen35moe_ratio1", tiny.config)
    assert locate(tiny_checkpoint(tiny, older)).notes == ()
    wrapped = TINY["qwen35moe_ratio2"].config
    older = {**wrapped, "text_config": flat_rope(wrapped["text_config"])}
    assert config_of("qwen35moe_ratio2", older) == config_of("qwen35moe_ratio2", wrapped)


def test_both_spellings_of_rope_give_one_qwen3next() -> None:
    older = TINY["qwen3next"].config
    rope = {key: older[key] for key in ("rope_theta", "partial_rotary_factor")}
    rest = {k: v for k, v in older.items() if k not in (*rope, "rope_scaling")}
    newer = {**rest, "rope_parameters": {**rope, "rope_type": "default"}}
    assert config_of("qwen3next", newer) == config_of("qwen3next", older)


def test_old_qwen3next_gguf_attends_every_fourth_layer() -> None:
    """Its first files do not state the interval."""
    file = tiny_gguf(TINY["qwen3next"], full_attention_interval=None)
    keys = Keys(file.metadata, "fake.gguf", "qwen3next.")
    assert qwen3next.Config.from_gguf(keys, 249).is_attention == (False, False, False, True)


def test_both_spellings_of_rope_give_one_real_qwen() -> None:
    config = json.loads(find("configs/Qwen3.5-35B-A3B.config.json").read_text())
    file = qwen_checkpoint(config, larger_table(config))
    older = {**config, "text_config": flat_rope(config["text_config"])}
    assert locate(dataclasses.replace(file, config=older)).cfg == locate(file).cfg


def test_old_llama_without_a_rope_section_is_plain() -> None:
    cfg = config_of("llama_tied", TINY["llama_tied"].config)
    assert cfg.rope_scaling is None
    plain = {**TINY["llama_tied"].config, "rope_scaling": {"rope_type": "default"}}
    assert config_of("llama_tied", plain) == cfg


def test_interval_equals_the_layer_types_it_means() -> None:
    config = TINY["qwen35moe_ratio1"].config
    by_interval = {k: v for k, v in config.items() if k != "layer_types"}
    by_types = {k: v for k, v in config.items() if k != "full_attention_interval"}
    expected = config_of("qwen35moe_ratio1", config)
    assert expected.is_attention == (False, False, False, True)
    assert config_of("qwen35moe_ratio1", by_interval) == expected
    assert config_of("qwen35moe_ratio1", by_types) == expected


@pytest.mark.parametrize("draft", ["none", "only in metadata"])
@pytest.mark.parametrize("as_numbers", [False, True])
def test_recurrent_layers_of_gguf_equal_layer_types(draft: Any, as_numbers: bool) -> None:
    """The array counts the draft block, as block_count does."""
    tiny = TINY["qwen35moe_ratio4"]
    recurrent = np.array([kind == LINEAR for kind in tiny.config["layer_types"]])
    if draft != "none":
        recurrent = np.append(recurrent, False)
    if as_numbers:
        recurrent = recurrent.astype(np.int32)
    file = tiny_gguf(tiny, draft, attention__recurrent_layers=recurrent)
    cfg = locate(file).cfg
    assert cfg.is_attention == (False, True, False, False, True)
    assert cfg.is_attention == locate(tiny_checkpoint(tiny)).cfg.is_attention


def test_recurrent_layers_of_gguf_go_before_the_interval() -> None:
    tiny = TINY["qwen35moe_ratio1"]
    recurrent = np.array([True, True, True, False])
    both = tiny_gguf(tiny, attention__recurrent_layers=recurrent, full_attention_interval=2)
    assert locate(both).cfg == locate(tiny_gguf(tiny)).cfg


@pytest.mark.parametrize("name", TINY)
def test_gguf_and_config_json_give_one_config(name: str) -> None:
    """Save for what only one of them says, and for float32's rounding."""
    tiny = TINY[name]
    ours, theirs = locate(tiny_gguf(tiny)).cfg, locate(tiny_checkpoint(tiny)).cfg
    only_one_says = ("n_nextn", "may_tie", "rope_scaling")
    for field in dataclasses.fields(ours):
        if field.name not in only_one_says:
            assert getattr(ours, field.name) == getattr(theirs, field.name), field.name


@pytest.mark.parametrize("name", ONE_EACH)
def test_keys_that_nobody_understands_are_noted(name: str) -> None:
    tiny = ONE_EACH[name]
    assert locate(tiny_gguf(tiny, new_thing=3, attention__sinks_scale=0.5)).notes == (
        "fake.gguf: keys not understood and not used: attention.sinks_scale, new_thing",
    )
    assert locate(tiny_checkpoint(tiny, {**tiny.config, "new_thing": 3, "dtype": "x"})).notes == (
        "config.json: keys not understood and not used: new_thing",
    )


def test_keys_inside_sections_are_noted_too() -> None:
    wrapped = TINY["qwen35moe_ratio2"]
    text = {**wrapped.config["text_config"], "new_thing": 3}
    text["rope_parameters"] = {**text["rope_parameters"], "attention_factor": 2.0}
    *_, note = locate(tiny_checkpoint(wrapped, {**wrapped.config, "text_config": text})).notes
    assert note == (
        "config.json: keys not understood and not used: text_config.new_thing, "
        "text_config.rope_parameters.attention_factor"
    )
