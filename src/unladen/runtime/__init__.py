"""Brings a blueprint into memory: loads its weights, allocates its buffers, compiles and runs its
segments."""
