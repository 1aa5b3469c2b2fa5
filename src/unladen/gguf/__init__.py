"""GGUF files: mapped, validated, written.

The format is described in https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from unladen.gguf.check import check_numbers
from unladen.gguf.keys import HParams
from unladen.gguf.matching import close_names, warn_unmatched
from unladen.gguf.metadata import ArrayValue, Metadata, NumberArray, StringArray, Value
from unladen.gguf.reader import GGUFFile, open_gguf
from unladen.gguf.tensors import TensorInfo
from unladen.gguf.writer import GGUFWriter

__all__ = ["ArrayValue", "GGUFFile", "GGUFWriter", "HParams", "Metadata", "NumberArray",
           "StringArray", "TensorInfo", "Value", "check_numbers", "close_names", "open_gguf",
           "warn_unmatched"]
