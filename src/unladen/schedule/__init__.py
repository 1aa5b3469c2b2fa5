"""Plans on paper where a model runs: places nodes, cuts segments, counts bytes. Allocates
nothing."""
