"""Small sound files for fuzzing to start from: together they hold what the formats can hold."""

import json
import struct

from tests.formats import gguf_bytes as g
from tests.formats.safetensors_bytes import entry, file_bytes

N_DATA = 164
GGUF = g.gguf(
    [
        g.kv("general.architecture", g.STRING, g.string("llama")),
        g.kv("general.alignment", g.U32, g.u32(32)),
        g.kv("flag", g.BOOL, b"\1"),
        g.kv("bools", g.ARRAY, g.array(g.BOOL, [b"\0", b"\1", b"\1"])),
        g.kv("tokens", g.ARRAY, g.array(g.STRING, [g.string("a"), g.string("bc"), g.string("")])),
        g.kv("nested", g.ARRAY, g.array(g.ARRAY, [g.array(g.U32, [g.u32(5)])])),
    ],
    [g.tensor("q", [32, 2], 8, 0), g.tensor("m", [32, 3, 1], 39, 96), g.tensor("s", [], 0, 160)],
    bytes(range(N_DATA)),
)
HEADER = json.dumps(
    {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "BF16", "shape": [5], "data_offsets": [24, 34]},
    }
).encode()
SAFETENSORS = struct.pack("<Q", len(HEADER)) + HEADER + bytes(range(34))

_SPLIT = [g.kv("split.no", 2, b"\0\0"), g.kv("split.count", 2, b"\1\0")]
_ALL_TYPES = [g.kv(f"k{t}", t, g.scalar(t, 1)) for t in g.SCALARS]
_ALL_ARRAYS = [g.kv(f"a{t}", g.ARRAY, g.array(t, [g.scalar(t, 1)] * 2)) for t in g.SCALARS]

GGUF_SEEDS = (
    GGUF,
    g.gguf([*_ALL_TYPES, *_ALL_ARRAYS], []),
    g.gguf(
        [*_SPLIT, g.kv("split.tensors.count", 5, g.u32(1))], [g.tensor("t", [3], 24, 0)], b"abc"
    ),
    g.gguf([], [g.tensor("k", [256, 2], 12, 0), g.tensor("i", [256], 16, 288)], bytes(400)),
)
SAFETENSORS_SEEDS = (
    SAFETENSORS,
    file_bytes("{}"),
    file_bytes(
        {"e": entry("F64", [0, 2], 0, 0), "s": entry("F16", [], 0, 2), "t": entry("U8", [1], 2, 3)},
        b"abc",
    ),
)
SHARDS = {
    "model-00001-of-00002.safetensors": file_bytes({"a": entry("U8", [3], 0, 3)}, b"abc"),
    "model-00002-of-00002.safetensors": file_bytes(
        {"b": entry("I16", [2], 0, 4), "c": entry("U8", [1], 4, 5)}, b"defgh"
    ),
}
_PLACES = dict(zip("abc", [*SHARDS, list(SHARDS)[1]], strict=True))
INDEX_SEEDS = (json.dumps({"metadata": {"total_size": 8}, "weight_map": _PLACES}).encode(),)
