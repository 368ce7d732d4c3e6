"""Trains the two small demonstration models from scratch, in the dialogue format of their family.

Development tooling: needs torch and transformers, and nothing of it is part of the installed
package. `python -m tools.train_demo --help` and README.md beside this file say how to run it.
"""
