"""Tiny random models, written in the file formats people have, for tests and oracles alike."""
