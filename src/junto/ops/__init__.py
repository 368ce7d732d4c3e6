"""The operations a model is written in: one contract, several backends.

`views` declares what ops read and write besides plain arrays (ragged batches, paged KV, anchored
DeltaNet chunks), `contract` the ops themselves, `rotary` the frequencies of RoPE. Backends live in
subpackages (`reference` is NumPy) and know neither models nor how a cache manages its memory.
"""
