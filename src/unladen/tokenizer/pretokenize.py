"""The named pre-tokenizers of ``tokenizer.ggml.pre``, as data.

The steps are in csrc/split.cc, each beside its regular expression. Names and flags are those that
llama.cpp's converter writes and its loader (src/llama-vocab.cpp) reads.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from unladen.errors import UnsupportedModel


@dataclass(frozen=True)
class PreTokenizer:
    """How text is cut into words before merging, and what a name implies besides.

    ``ignore_merges``: a word that is a token isn't merged. ``add_bos`` and ``clean_spaces`` hold
    where the file has no such key.
    """

    steps: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    clean_spaces: bool = True


_FAMILIES: Final = {
    "default": PreTokenizer(("punctuation", "gpt2", "numbers", "digits3")),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano":
        PreTokenizer(("llama3",), ignore_merges=True, add_bos=True),
    "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert "
    "jina-v1-en jina-v2-code roberta-bpe exaone4 mpt olmo jais":
        PreTokenizer(("gpt2",)),
    "trillion granite-docling": PreTokenizer(("gpt2",), clean_spaces=False),
    "megrez stablelm2": PreTokenizer(("qwen2",)),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan": PreTokenizer(("qwen2",), clean_spaces=False),
    "starcoder refact codeshell exaone minerva-7b": PreTokenizer(("number", "gpt2")),
    "command-r smollm": PreTokenizer(("number", "gpt2"), clean_spaces=False),
}


@functools.cache
def pre_tokenizers() -> Mapping[str, PreTokenizer]:
    """Every pre-tokenizer by name."""
    return {name: pre for names, pre in _FAMILIES.items() for name in names.split()}


def pre_tokenizer(name: str) -> PreTokenizer:
    """The pre-tokenizer called ``name``; raises :class:`UnsupportedModel`."""
    try:
        return pre_tokenizers()[name]
    except KeyError:
        raise UnsupportedModel(
            f"tokenizer.ggml.pre {name!r} isn't implemented", arch=name,
            hint="text would be cut wrongly without it; known: "
                 + ", ".join(sorted(pre_tokenizers()))) from None
