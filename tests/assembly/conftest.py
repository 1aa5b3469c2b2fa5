"""Fixtures: a model of two graphs from two files."""

from two_graphs import pair as pair
