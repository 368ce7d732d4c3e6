"""Runs one layer of real size by an architecture's `block`: for tests and `make accuracy`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from junto.formats.quants import TYPES
from junto.formats.tensor import Tensor
from junto.models.architecture import by_hf_name
from junto.models.keys import Keys
from junto.models.loading import fill
from junto.ops.reference import Reference
from junto.ops.views import F32, Batch
from tests.tiny.real_layers import RealLayer


def layer_output(layer: RealLayer) -> F32:
    """What the reference makes of the layer's input: float32 [n_tok, n_embd]."""
    architecture: Any = by_hf_name(layer.config, layer.name)
    cfg = architecture.Config.from_hf(Keys(layer.config, layer.name))
    ops = Reference()
    shapes = layer.table()
    tensors = {
        name: _lazy(name, shapes[name].shape, make) for name, make in layer.tensors().items()
    }
    for name, shape in (("embed_tokens", (8, layer.n_embd)), ("norm", (layer.n_embd,))):
        key = f"model.{name}.weight"
        tensors[key] = Tensor.from_array(key, np.zeros(shape, np.float32), layer.name)
    head = np.zeros((8, layer.n_embd), np.float32)
    tensors["lm_head.weight"] = Tensor.from_array("lm_head.weight", head, layer.name)
    located = architecture.TENSORS.find(cfg, tensors, "hf", layer.name)
    w = fill(architecture.TENSORS.layer(cfg, 0), located.layers[0], ops)
    cache = architecture.make_cache(cfg, n_slot=1, n_ctx=1024)
    batch = Batch.pack([(cache.open(), 0, [0] * layer.n_tok)], all_logits=False)
    cache.begin(batch)
    angles = ops.angles(batch.positions, cfg.rotation)
    output: F32 = architecture.block(cfg, 0, w, ops, layer.input(), angles, batch, cache)
    return output


def layer_error(layer: RealLayer) -> float:
    """Largest error of the golden rows over the largest |value| of the layer's output."""
    golden = layer.golden()
    rows = layer_output(layer)[list(layer.positions)]
    return float(np.abs(rows - golden.out).max()) / golden.scale


def _lazy(name: str, shape: tuple[int, ...], make: Callable[[], F32]) -> Tensor:
    """A tensor that is made when first read and kept."""
    made: list[F32] = []

    def read() -> Any:
        if not made:
            made.append(np.ascontiguousarray(make(), np.float32))
        return made[0].view(np.uint8)

    return Tensor(name, shape, TYPES["F32"], "real layer", read)
