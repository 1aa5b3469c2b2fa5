"""Commands of Ollama and llama.cpp that unladen doesn't have, and what to use instead."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from unladen.cli._ending import Misused
from unladen.hub import INCLUDED

_RUN: Final = ("", "unladen run MODEL PROMPT answers, or continues a text")
_SERVE: Final = ("", "unladen serve MODEL")
_STOP: Final = ("", "unladen stop MODEL")
_PS: Final = ("", "unladen ps")
_CHAT: Final = ("", "unladen chat MODEL")
_PULL: Final = ("", "unladen pull org/repo:Q4_K_M")
_LIST: Final = ("", "unladen list")
_REMOVE: Final = ("", "unladen rm NAME")
_COPY: Final = ("", "unladen cp SOURCE NAME")
_PUSH: Final = ("models aren't sent anywhere", "for Hugging Face: hf upload")
_CREATE: Final = ("", "unladen create NAME -f Modelfile")
_EMBED: Final = ("there is no command for it",
                 'from Python: unladen.Model(MODEL).embed("a text")')
_CONVERT: Final = ("only GGUF files are read",
                   "llama.cpp's convert_hf_to_gguf.py makes one; unladen quantize SOURCE TARGET "
                   "TYPE makes it smaller")
_IMATRIX: Final = ("importance matrices are read, not made",
                   "llama-imatrix makes one for unladen quantize --imatrix FILE")
_SPLIT: Final = ("split files are read as they are, none are made",
                 "name the first part; the others are found beside it")
_LORA: Final = ("adapters (LoRA) aren't there yet", "merge it into the model before converting")
_MEDIA: Final = ("sound and pictures aren't there yet",
                 "unladen run MODEL PROMPT answers a text, or continues it")
_ACCOUNT: Final = ("there are no accounts here", "for Hugging Face: hf auth login")

ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("server", "start", "launch", "router"), _SERVE),
    **dict.fromkeys(("unload", "eject", "kill"), _STOP),
    **dict.fromkeys(("top", "running", "loaded"), _PS),
    **dict.fromkeys(("conversation", "talk", "interactive"), _CHAT),
    **dict.fromkeys(("cli", "main", "simple", "completion", "complete", "generate"), _RUN),
    **dict.fromkeys(("ls", "models"), _LIST),
    **dict.fromkeys(("download", "get"), _PULL),
    **dict.fromkeys(("remove", "delete"), _REMOVE),
    **dict.fromkeys(("copy", "rename", "mv"), _COPY),
    **dict.fromkeys(("push", "upload"), _PUSH),
    **dict.fromkeys(("make", "import"), _CREATE),
    **dict.fromkeys(("embed", "embedding", "embeddings", "retrieval"), _EMBED),
    "rerank": ("there is no command for it", "in Python, unladen.Model(file).rank(query, texts); "
               "unladen serve has /rerank"),
    **dict.fromkeys(("convert", "convert-hf-to-gguf", "convert-lora-to-gguf"), _CONVERT),
    "imatrix": _IMATRIX,
    **dict.fromkeys(("gguf-split", "split", "merge"), _SPLIT),
    **dict.fromkeys(("export-lora", "finetune", "cvector-generator"), _LORA),
    **dict.fromkeys(("tts", "mtmd", "mtmd-cli", "llava-cli", "whisper", "transcribe"), _MEDIA),
    **dict.fromkeys(("signin", "signout", "login", "logout"), _ACCOUNT),
    **dict.fromkeys(("batched-bench", "parallel"), ("", "unladen bench MODEL --n-seqs 1,8 times "
                                                        "sequences that generate together")),
    **dict.fromkeys(("speculative", "lookup", "lookahead"), (
        "draft models aren't there yet",
        "unladen run guesses ahead where a text repeats itself (--speculate)")),
    **dict.fromkeys(("rpc-server", "rpc"), ("other hosts aren't used yet",
                                            "unladen doctor lists the devices of this one")),
    **dict.fromkeys(("info", "inspect", "gguf", "gguf-dump"), ("", "unladen show MODEL")),
    **dict.fromkeys(("devices", "list-devices", "env", "status"), ("", "unladen doctor")),
    **dict.fromkeys(("fit-params", "fit", "place"), ("", "unladen plan MODEL")),
    **dict.fromkeys(("eval", "evaluate"), ("", "unladen perplexity MODEL --text FILE")),
    "detokenize": ("there is no command for it", "from Python: unladen.Model(MODEL, vocab_only=True"
                                                 ").detokenize(ids)"),
    "help": ("", "unladen -h"), "version": ("", "unladen --version"),
    **dict.fromkeys(("update", "upgrade"), ("", "pip install --upgrade unladen")),
}
"""By a command's name: what is missing ("" where another command does it), and what to use."""


def unknown(name: str, rest: Sequence[str], known: Sequence[str]) -> Misused:
    """The error for a command line that begins with ``name``, which isn't one of ``known``."""
    bare = name.lower().removeprefix("llama-").replace("_", "-").removesuffix(".py")
    if name.startswith("llama-") and bare in known:
        return Misused(f"no such command: {name}", hint=f"unladen {bare}")
    if bare in ELSEWHERE:
        missing, instead = ELSEWHERE[bare]
        return Misused(f"no such command: {name}" + (f"; {missing}" if missing else ""),
                       hint=instead)
    if _may_be_a_model(name):
        prompt = "" if rest else " PROMPT"
        return Misused(f"no such command: {name}; it looks like a model",
                       hint=f"unladen run {name}{prompt}")
    near = get_close_matches(name.lower(), [*known, *ELSEWHERE], n=1)
    if near and near[0] in ELSEWHERE:
        near = get_close_matches(name.lower(), known, n=1)
    if near:
        return Misused(f"no such command: {name}", hint=f"did you mean: unladen {near[0]}")
    return Misused(f"no such command: {name}", hint=f"there are {', '.join(sorted(known))}")


def _may_be_a_model(name: str) -> bool:
    return (name.lower().endswith(".gguf") or name in INCLUDED or os.path.isfile(name)
            or (any(sign in name for sign in "/:") and not name.startswith("-")))
