"""Modelfiles: Ollama's text form of a model and its settings, with Mullama's additions."""

from unladen.hub.modelfile.document import Modelfile
from unladen.hub.modelfile.parsing import parse, read

__all__ = ["Modelfile", "parse", "read"]
