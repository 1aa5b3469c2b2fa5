"""Text to ids and back, from GGUF metadata alone."""

from unladen.tokenizer.breakers import sequences
from unladen.tokenizer.stream import StopMatcher, StreamDecoder
from unladen.tokenizer.tokenizer import Tokenizer

__all__ = ["StopMatcher", "StreamDecoder", "Tokenizer", "sequences"]
