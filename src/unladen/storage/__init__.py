"""Files in memory: mapped as they are, or kept as a processor's kernels read them fastest."""
