"""Commands of Ollama and llama.cpp that unladen doesn't have, and what to use instead."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from unladen.cli._ending import Misused

_RUN: Final = ("", "unladen run MODEL PROMPT continues a text")
_SERVE: Final = ("a server isn't there yet",
                 "unladen run MODEL PROMPT, or from Python: unladen.Model(MODEL).generate(PROMPT)")
_CHAT: Final = ("conversations aren't there yet",
                "unladen run MODEL PROMPT continues a text; a model's chat template isn't applied")
_PULL: Final = ("there is no command for it",
                "unladen run org/repo:Q4_K_M PROMPT downloads a model the first time")
_LIST: Final = ("there is no list of models yet",
                "files are named by their paths; models from Hugging Face are listed by: "
                "hf cache ls")
_REMOVE: Final = ("there is no command for it", "files are yours to delete; models from Hugging "
                                                "Face are removed by: hf cache rm")
_COPY: Final = ("models have no names of their own here", "copy the GGUF file")
_CREATE: Final = ("Modelfiles aren't read", "options and the prompt are given to unladen run")
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
_MEDIA: Final = ("sound and pictures aren't there yet", "unladen run MODEL PROMPT continues a text")
_ACCOUNT: Final = ("there are no accounts here", "for Hugging Face: hf auth login")

ELSEWHERE: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(("serve", "server", "start", "stop", "ps", "launch", "router"), _SERVE),
    **dict.fromkeys(("chat", "conversation"), _CHAT),
    **dict.fromkeys(("cli", "main", "simple", "completion", "complete", "generate"), _RUN),
    **dict.fromkeys(("list", "ls", "models"), _LIST),
    **dict.fromkeys(("pull", "download", "get"), _PULL),
    **dict.fromkeys(("rm", "remove", "delete"), _REMOVE),
    **dict.fromkeys(("cp", "copy", "push", "upload"), _COPY),
    "create": _CREATE,
    **dict.fromkeys(("embed", "embedding", "embeddings", "retrieval"), _EMBED),
    "rerank": ("there is no command for it, and models that rank aren't there yet", _EMBED[1]),
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
    return (name.lower().endswith(".gguf") or name == "tiny" or os.path.isfile(name)
            or (any(sign in name for sign in "/:") and not name.startswith("-")))
