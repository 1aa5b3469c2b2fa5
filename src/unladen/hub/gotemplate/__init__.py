"""Prompts from Go templates, as models in Ollama's store bring them.

This is the part of Go's ``text/template`` that such templates use, with Ollama's functions and its
rules of how a conversation becomes a template's data. Templates come from strangers: steps, output
and nesting are limited, and a template reaches nothing but its data.
"""

from unladen.hub.gotemplate.conversation import GoTemplate, render
from unladen.hub.gotemplate.records import BrokenOff

__all__ = ["BrokenOff", "GoTemplate", "render"]
