"""What can be measured of a loaded model and of the machine: speed, work, errors, limits.

Everything here sees a model from outside, through its runner and through an `Ops` that looks on; no
architecture is known by name.
"""
