"""One file an architecture, found by name, and what they share to read files.

`architecture` says what such a file declares and finds it; `keys` reads metadata and config.json
key by key; `table` maps a file's tensors to the fields of a layer; `layouts` converts between the
layouts that files use; `loading` puts these together. An architecture imports no other.
"""
