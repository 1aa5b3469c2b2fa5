"""Tries each kernel on its device before a plan relies on it."""
