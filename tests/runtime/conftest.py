"""Fixtures: plans of a tiny model, and steps by hand."""

from tiny_plan import feed as feed
from tiny_plan import tiny as tiny
from tiny_plan import tokens as tokens
