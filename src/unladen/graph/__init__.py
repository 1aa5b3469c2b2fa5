"""Graphs: the computation of a model as ops, without devices."""
