"""What to compute: semantic graphs, free of devices."""
