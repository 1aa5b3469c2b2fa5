"""Cuts a placed graph over devices and into segments, and lays out its values in arenas."""
