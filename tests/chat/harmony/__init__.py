"""Tests of harmony, the dialogue format of gpt-oss."""
