"""Files in memory: mapped models, and copies of weights packed for a processor's kernels."""
