"""Cuts a placed graph: over devices, into segments, and into an arena's bytes."""
