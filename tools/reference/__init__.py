"""The pages that ``tools/gen_reference.py`` writes: one module for each."""
