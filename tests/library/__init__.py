"""Tests of names, of finding models, and of fetching them from a hub double."""
