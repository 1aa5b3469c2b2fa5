"""The stores of models on this machine: Hugging Face's, llama.cpp's, LM Studio's and Ollama's.

Each file of this folder is a store, found by scanning. Stores are read where they are; nothing is
written into them, and nothing but the headers of files is read for a list.
"""

from unladen.hub.stores.base import Look, Store, StoredModel
from unladen.hub.stores.finding import find, find_one, listed, stores
from unladen.hub.stores.presets import read_preset

__all__ = ["Look", "Store", "StoredModel", "find", "find_one", "listed", "read_preset",
           "stores"]
