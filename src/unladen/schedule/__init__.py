"""Where it runs, on paper: bytes counted, nodes placed, segments cut. Allocates nothing."""
