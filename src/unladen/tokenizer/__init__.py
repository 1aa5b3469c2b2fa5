"""Text to ids and back, from GGUF metadata alone or by a ``tokenizer.json``."""

from unladen.tokenizer.breakers import sequences
from unladen.tokenizer.from_json import JsonTokenizer
from unladen.tokenizer.stream import StopMatcher, StreamDecoder
from unladen.tokenizer.tokenizer import Tokenizer

__all__ = ["JsonTokenizer", "StopMatcher", "StreamDecoder", "Tokenizer", "sequences"]
