"""Comparisons with transformers and llama.cpp, and the scripts that record what they compute."""
