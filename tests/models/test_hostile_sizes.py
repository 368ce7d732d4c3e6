"""A huge number in any key of metadata or config.json is refused, or makes nothing huge.

The tensors of the file stay as they are, so a size that no tensor is checked against shows here.
"""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from junto.errors import ModelError
from junto.formats.gguf import GGUFFile
from junto.formats.safetensors import Checkpoint
from junto.models.keys import MAX_STATE_BYTES, N_MAX, Keys
from junto.models.loading import Blueprint, locate
from tests.models.fakes import ONE_EACH, gguf, tiny_checkpoint, tiny_gguf

HUGE = (N_MAX, 2**60, 2**64 - 1)
N_SLOT = 8
MAX_BYTES = 8 << 20


def numbers(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of all numbers in nested objects and lists; of a list, the first only."""
    if isinstance(values, bool):
        return
    if isinstance(values, int | float):
        yield path
    elif isinstance(values, dict):
        for key, value in values.items():
            yield from numbers(value, (*path, key))
    elif isinstance(values, list):
        for value in values[:1]:
            yield from numbers(value, (*path, 0))


def changed(values: Any, path: tuple[Any, ...], value: object) -> Any:
    if not path:
        return value
    copy = dict(values) if isinstance(values, dict) else list(values)
    copy[path[0]] = changed(values[path[0]], path[1:], value)
    return copy


def files(name: str) -> Iterator[tuple[str, GGUFFile | Checkpoint]]:
    """The tiny model with each number of its GGUF and of its config.json made huge."""
    tiny, whole = ONE_EACH[name], tiny_gguf(ONE_EACH[name])
    metadata = {k: v for k, v in whole.metadata.items() if not k.startswith("tokenizer.")}
    for huge in HUGE:
        for path in numbers(metadata):
            yield f"{path[-1]} = {huge}", gguf(changed(whole.metadata, path, huge), whole)
        for path in numbers(tiny.config):
            yield f"{path} = {huge}", tiny_checkpoint(tiny, changed(tiny.config, path, huge))


def located(file: GGUFFile | Checkpoint) -> Blueprint | None:
    try:
        return locate(file)
    except ModelError:
        return None


@pytest.mark.parametrize("name", ONE_EACH)
def test_huge_number_is_refused_or_allocates_little(name: str) -> None:
    n_refused = n_accepted = 0
    for what, file in files(name):
        blueprint = located(file)
        if blueprint is None:
            n_refused += 1
            continue
        cfg = blueprint.cfg
        tracemalloc.start()
        blueprint.architecture.make_cache(cfg, N_SLOT, cfg.n_ctx_train)
        rotation = getattr(cfg, "rotation", None)  # GPT-2 has none
        if callable(rotation):
            rotation(None)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < MAX_BYTES, what
        n_accepted += 1
    assert n_refused > 20
    assert n_accepted > 0


def test_head_of_a_recurrent_state_is_bounded() -> None:
    """The state is its square, and tensors of a few megabytes agree with a head of a million."""
    whole = tiny_gguf(ONE_EACH["qwen35moe"])
    with pytest.raises(ModelError) as raised:
        locate(gguf({**whole.metadata, "qwen35moe.ssm.state_size": 1 << 20}, whole))
    assert str(raised.value) == (
        "fake.gguf: 'qwen35moe.ssm.state_size' is 1048576, expected 1 to 1024"
    )


def test_recurrent_state_of_a_sequence_is_bounded() -> None:
    keys = Keys({}, "file")
    keys.check_state(48, 64, 128)  # Qwen3.5-397B and more
    with pytest.raises(ModelError) as raised:
        keys.check_state(48, 64, 512)
    assert str(raised.value) == (
        "file: 48 layers of 64 heads of 512 x 512 make a state of 3,221,225,472 bytes a sequence, "
        f"expected at most {MAX_STATE_BYTES:,}"
    )
