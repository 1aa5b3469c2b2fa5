"""In memory: a blueprint's weights loaded, its buffers allocated, its segments compiled and run."""
