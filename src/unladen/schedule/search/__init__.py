"""Looks for the placement that is predicted to be fastest."""
