"""The named pre-tokenizers of ``tokenizer.ggml.pre``, as data.

Names and flags are those that llama.cpp's converter writes and its loader (src/llama-vocab.cpp)
reads.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from unladen.errors import UnsupportedModel
from unladen.tokenizer import expressions as e


@dataclass(frozen=True)
class PreTokenizer:
    """How text is cut into words before merging, and what else the name implies.

    ``steps`` are expressions or names in csrc/split.cc. ``ignore_merges``: a word that is a token
    isn't merged. ``raw``: tokens are spelled in UTF-8, not in GPT-2's alphabet of bytes.
    ``marks``: spaces become U+2581 first. ``whole_lines``: like ``ignore_merges``, but only for
    words of line feeds. The other fields are defaults for keys that the file doesn't have: ``bos``
    says whether the vocabulary has a BOS. ``lowercase`` concerns the kind ``whitespace``.
    """

    steps: tuple[str, ...]
    ignore_merges: bool = False
    raw: bool = False
    marks: bool = False
    whole_lines: bool = False
    bos: bool = True
    add_bos: bool = False
    add_sep: bool = False
    clean_spaces: bool = True
    lowercase: bool = True


_NUMBER_GPT2: Final = ("number", "gpt2")

_FAMILIES: Final = {
    "default": PreTokenizer(("punctuation", "gpt2", "numbers", "digits3")),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano":
        PreTokenizer(("llama3",), ignore_merges=True, add_bos=True),
    "dbrx smaug-bpe": PreTokenizer(("llama3",)),
    "chatglm-bpe": PreTokenizer(("llama3",), bos=False),
    "glm4 glm5": PreTokenizer(("llama3",), bos=False, ignore_merges=True),
    "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert "
    "exaone4 mpt olmo jais": PreTokenizer(("gpt2",)),
    "jina-v1-en jina-v2-code roberta-bpe": PreTokenizer(("gpt2",), add_sep=True),
    "trillion granite-docling": PreTokenizer(("gpt2",), clean_spaces=False),
    "megrez stablelm2": PreTokenizer(("qwen2",)),
    "qwen2 deepseek-r1-qwen kormo f2llmv2 hunyuan grok-2 solar-open":
        PreTokenizer(("qwen2",), clean_spaces=False),
    "qwen35": PreTokenizer((e.QWEN35,), clean_spaces=False),
    "laguna": PreTokenizer((e.LINES, "qwen2"), clean_spaces=False),
    "ufakzeka": PreTokenizer((e.UFAKZEKA,), clean_spaces=False),
    "seed-coder": PreTokenizer((e.SEED_CODER,), clean_spaces=False),
    "bailingmoe bailingmoe2 llada-moe": PreTokenizer((e.BAILINGMOE,), clean_spaces=False),
    "exaone-moe": PreTokenizer((e.EXAONE_MOE,)),
    "jais-2": PreTokenizer((e.JAIS2,)),
    "minicpm5": PreTokenizer((e.NUMBERS3, e.MINICPM5), ignore_merges=True),
    "starcoder refact codeshell exaone minerva-7b": PreTokenizer(_NUMBER_GPT2),
    "command-r smollm mellum2": PreTokenizer(_NUMBER_GPT2, clean_spaces=False),
    "gpt-4o llama4 kanana2 talkie minimax-m2": PreTokenizer((e.GPT4O,), clean_spaces=False),
    "granite-embed-multi-97m": PreTokenizer((e.GPT4O,), ignore_merges=True, clean_spaces=False),
    "tiny_aya cohere2moe":
        PreTokenizer(("digits_apart", "apart_thirds", e.GPT4O), clean_spaces=False),
    "tekken": PreTokenizer((e.TEKKEN,), ignore_merges=True, add_bos=True, clean_spaces=False),
    "kimi-k2": PreTokenizer((e.KIMI_K2,), clean_spaces=False),
    "youtu": PreTokenizer(e.YOUTU, ignore_merges=True, clean_spaces=False),
    "superbpe": PreTokenizer(("numbers", "before_thirds"), clean_spaces=False),
    "afmoe": PreTokenizer(e.AFMOE, clean_spaces=False),
    "deepseek-v3 hunyuan-dense hy_v4 joyai-llm": PreTokenizer(e.DEEPSEEK_V3, clean_spaces=False),
    "spark2_5": PreTokenizer(e.SPARK2_5, clean_spaces=False),
    "deepseek-llm": PreTokenizer(e.DEEPSEEK_LLM, clean_spaces=False),
    "deepseek-coder": PreTokenizer(e.DEEPSEEK_CODER, clean_spaces=False),
    "falcon": PreTokenizer(e.FALCON),
    "bloom gpt3-finnish": PreTokenizer((e.BLOOM,)),
    "poro-chat": PreTokenizer((e.BLOOM,), clean_spaces=False),
    "viking": PreTokenizer((e.BLOOM, "number"), clean_spaces=False),
    "chameleon": PreTokenizer(e.CHAMELEON, add_bos=True, clean_spaces=False),
    "gemma4 granite-embed-multi-311m":
        PreTokenizer((e.LINES,), raw=True, marks=True, whole_lines=True, add_bos=True),
    "sarvam-moe": PreTokenizer((e.LINES,), raw=True, marks=True, clean_spaces=False),
    "whitespace": PreTokenizer((e.NO_SPACES,), raw=True, lowercase=False),
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
