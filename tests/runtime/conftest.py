"""Fixtures: plans of a tiny model and of two, and steps by hand."""

from tiny_plan import allocated as allocated
from tiny_plan import feed as feed
from tiny_plan import tiny as tiny
from tiny_plan import tokens as tokens
from two_graphs import pair as pair
