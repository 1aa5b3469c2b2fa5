"""The extension module; each part is described in a stub of its own."""

from unladen._native import cpu as cpu
from unladen._native import engine as engine
from unladen._native import gguf as gguf
from unladen._native import quants as quants
from unladen._native import sample as sample
from unladen._native import tokenizer as tokenizer
