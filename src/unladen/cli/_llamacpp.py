"""llama.cpp's options: which option of unladen each means, or why it has no effect.

A command line for llama.cpp's programs works unchanged if unladen can do what it asks for. An
option that changes nothing here is accepted with a note that says so. An option that would change
the result and isn't implemented is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Same:
    """It means unladen's ``option``. Values in ``drops`` ask for what happens anyway."""

    option: str
    drops: tuple[str, ...] = ()
    has_value: bool = True


@dataclass(frozen=True, slots=True)
class Special:
    """A rule of its own, called ``rule``, translates it; :data:`RULES` describes the result."""

    rule: str
    has_value: bool = True


@dataclass(frozen=True, slots=True)
class Idle:
    """It has no effect here. A note says ``why``; if that is empty, the option asks for what is
    done anyway. ``values``: values that may follow a flag which needs none."""

    why: str = ""
    has_value: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """It isn't implemented here; ``hint`` says what to do instead."""

    why: str
    hint: str
    has_value: bool = False


Meaning = Same | Special | Idle | Absent

SWITCHES: Final = ("on", "off", "auto", "0", "1", "true", "false", "enabled", "disabled")
"""Values that llama.cpp takes for an option that is on, off or automatic."""
NO_LIMIT: Final = ("-1", "-2")
"""Numbers with which llama.cpp asks for no limit or for its own choice."""


def _all(meaning: Meaning, *names: str) -> Iterable[tuple[str, Meaning]]:
    return ((name, meaning) for name in names)


_TALK = Idle("this program logs little")
_SCHEDULING = Idle("threads are placed by --numa and by the system", has_value=True)
_TURN = "a prompt is one question, answered through the chat template where the file has one"
"""Note for options about conversations of a single turn."""
_CHAT = Absent("unladen run answers one question", "leave it out")
_TEXT = Absent("options here take a text, not a file",
               'let the shell read it: --system "$(cat FILE)", --template "$(cat FILE)"',
               has_value=True)
_AFFIX = Absent("the chat template writes what stands around a message",
                "leave it out, or write it into the prompt and add --raw", has_value=True)
_LORA = Absent("adapters (LoRA) aren't there yet", "merge it into the model's file", has_value=True)
_DRAFT = Absent("draft models aren't there yet",
                "leave it out: --speculate guesses from the text itself", has_value=True)
_MEDIA = Absent("sound and pictures aren't there yet", "leave it out", has_value=True)
_AS_FILE = Absent("the file's own value holds", "leave it out", has_value=True)
_SHIFT = "a full context ends the text: nothing is shifted out"
"""Note for options about context shift."""

EVERYWHERE: Final[Mapping[str, Meaning]] = MappingProxyType(dict((
    *_all(Special("model"), "-m", "--model"),
    *_all(Special("hub"), "-hf", "-hfr", "--hf-repo"),
    *_all(Special("hub_file"), "-hff", "--hf-file"),
    *_all(Special("model"), "-mu", "--model-url"),
    *_all(Special("token"), "-hft", "--hf-token"), ("--offline", Special("offline", False)),
    *_all(Same("--context-size", ("0",)), "-c", "--ctx-size", "--context-size", "--n-ctx"),
    *_all(Same("--threads", NO_LIMIT), "-t", "--threads"),
    *_all(Same("--threads-batch", NO_LIMIT), "-tb", "--threads-batch"),
    *_all(Special("batch"), "-b", "--batch-size"), *_all(Special("ubatch"), "-ub", "--ubatch-size"),
    *_all(Same("--n-gpu-layers"), "--gpu-layers"),
    *_all(Special("devices"), "-dev"), *_all(Special("shares"), "-ts", "--tensor-split"),
    *_all(Same("--no-kv-offload", has_value=False), "-nkvo"),
    *_all(Idle(), "--kv-offload", "-kvo", "--mmap", "--no-direct-io", "-ndio"),
    *_all(Same("--cpu-moe", has_value=False), "-cmoe"), *_all(Same("--n-cpu-moe"), "-ncmoe"),
    *_all(Special("keys"), "-ctk", "--cache-type-k"),
    *_all(Special("values"), "-ctv", "--cache-type-v"),
    *_all(Idle("attention never keeps the whole score matrix", values=SWITCHES),
          "-fa", "--flash-attn"),
    ("--no-op-offload", Special("no_op_offload", False)), ("--op-offload", Idle()),
    *_all(Idle("nothing is warmed up"), "--no-warmup", "--warmup"),
    *_all(Idle("weights are repacked where the processor's kernels need it"),
          "-nr", "--no-repack", "--repack"),
    *_all(Idle("windows always keep their whole cache"), "--swa-full"),
    *_all(Idle("files are mapped or, with --no-mmap, copied"), "-dio", "--direct-io"),
    *_all(Idle("memory is always checked before loading", values=SWITCHES), "-fit", "--fit"),
    *_all(_TALK, "--log-disable", "--log-prefix", "--log-timestamps", "-v", "--verbose",
          "--log-verbose", "--no-log-prefix", "--no-log-timestamps", "--verbose-prompt"),
    *_all(Idle(_TALK.why, values=SWITCHES), "--log-colors"),
    *_all(Idle(_TALK.why, has_value=True), "--log-file", "-lv", "--verbosity", "--log-verbosity"),
    *_all(Idle("timings are shown on a terminal"), "--perf", "--no-perf", "--show-timings"),
    *_all(_SCHEDULING, "-C", "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "--prio", "--poll",
          "-Cb", "--cpu-mask-batch", "-Crb", "--cpu-range-batch", "--cpu-strict-batch",
          "--prio-batch", "--poll-batch"),
    *_all(Absent("other hosts aren't used yet", "unladen doctor lists the devices of this one",
                 has_value=True), "--rpc"),
    *_all(_LORA, "--lora", "--lora-scaled", "--control-vector", "--control-vector-scaled"),
    *_all(_AS_FILE, "--override-kv", "--rope-scaling", "--rope-scale", "--rope-freq-base",
          "--rope-freq-scale", "--yarn-orig-ctx", "--yarn-ext-factor", "--yarn-attn-factor",
          "--yarn-beta-slow", "--yarn-beta-fast"),
    *_all(Absent("devices aren't listed here", "unladen doctor lists them"), "--list-devices"),
    *_all(Absent("scripts for completion are made by unladen",
                 "unladen --install-completion"), "--completion-bash"),
    *_all(Same("--help", has_value=False), "--usage"),
)))
"""Options of llama.cpp that every command takes if it has the option that is meant."""

RUN: Final[Mapping[str, Meaning]] = MappingProxyType(dict((
    *_all(Special("prompt"), "-p", "--prompt"), *_all(Special("file"), "-f", "--file"),
    *_all(Special("escapes", False), "-e", "--escape"), ("--no-escape", Idle()),
    *_all(Same("--max-tokens", NO_LIMIT), "-n", "--max-tokens", "--n-predict", "--predict"),
    *_all(Same("--seed", NO_LIMIT), "-s", "--seed"),
    *_all(Same("--temp"), "--temperature"), *_all(Same("--typical-p"), "--typical"),
    *_all(Same("--top-n-sigma"), "--top-nsigma"), *_all(Same("--stop"), "-r", "--reverse-prompt"),
    *_all(Same("--n-draft"), "--draft", "--draft-max", "--draft-n"),
    *_all(Special("bias"), "-l", "--logit-bias"), *_all(Special("steps"), "--samplers"),
    *_all(Special("letters"), "--sampling-seq", "--sampler-seq"),
    *_all(Idle(), "--no-display-prompt", "--no-context-shift", "--simple-io", "--no-jinja"),
    *_all(Idle("the prompt is shown on a terminal alone"), "--display-prompt"),
    *_all(Idle(), "--jinja"), *_all(Idle(_TURN), "-st", "--single-turn"),
    *_all(Idle("the text is written without colours", values=SWITCHES), "-co", "--color"),
    *_all(Idle(_SHIFT), "--context-shift", "--ctx-shift"),
    *_all(Idle(_SHIFT, has_value=True), "--keep"),
    *_all(Idle("control tokens are never written"), "-sp", "--special"),
    *_all(Idle("the cache isn't kept in a file", has_value=True), "--prompt-cache"),
    *_all(Idle("the cache isn't kept in a file"), "--prompt-cache-all", "--prompt-cache-ro"),
    *_all(Idle("there is one text", has_value=True), "-np", "--parallel"),
    *_all(Idle("there is one text"), "-cb", "--cont-batching", "-nocb", "--no-cont-batching"),
    *_all(_CHAT, "-cnv", "--conversation", "-i", "--interactive", "-if", "--interactive-first",
          "-mli", "--multiline-input", "--in-prefix-bos"),
    *_all(Same("--system"), "-sys", "--system-prompt"), ("--chat-template", Same("--template")),
    *_all(_TEXT, "-sysf", "--system-prompt-file", "--chat-template-file"),
    *_all(_AFFIX, "--in-prefix", "--in-suffix"),
    *_all(Absent("variables of templates are given in Python: Model.chat(template_variables=)",
                 "--reasoning on or off turns reasoning on or off", has_value=True),
          "--chat-template-kwargs"),
    ("--reasoning-format", Idle("reasoning is always apart from the answer", has_value=True)),
    ("--reasoning-budget", Same("--reasoning", NO_LIMIT)),
    ("--grammar-file", Same("--grammar")),
    *_all(Same("--json-schema"), "-j", "-jf", "--json-schema-file"),
    *_all(_DRAFT, "-md", "--model-draft", "-hfd", "-hfrd", "--hf-repo-draft"),
    *_all(_MEDIA, "--image", "--audio", "--mmproj", "-mm", "--mmproj-url", "-mmu"),
)))
"""Options of llama-cli and llama-completion, for ``unladen run``."""

BENCH: Final[Mapping[str, Meaning]] = MappingProxyType(dict((
    *_all(Special("format"), "-o", "--output"),
    *_all(Idle("progress is shown on a terminal"), "--progress"),
    *_all(Idle("there is no pause between tests", has_value=True), "--delay"),
    *_all(Same("--no-mmap", has_value=False), "--no-mmap"),
    *_all(Special("mmap"), "-mmp", "--mmap"), *_all(Special("no_kv"), "-nkvo", "--no-kv-offload"),
    *_all(Absent("prompt and text are timed apart", "-p 512 -n 128", has_value=True), "-pg"),
)))
"""Options of llama-bench, for ``unladen bench``."""

PERPLEXITY: Final[Mapping[str, Meaning]] = MappingProxyType(dict((
    *_all(Same("--text"), "--file"), *_all(Same("--chunk", ("0",)), "-c", "--ctx-size"),
    *_all(Same("--kl-base"), "--kl-divergence-base"),
    *_all(Idle(), "--kl-divergence"), *_all(Same("--save-logits"), "--save-all-logits"),
    *_all(Absent("all of the text is measured", "cut the file shorter", has_value=True),
          "--chunks"),
    *_all(Absent("there are no such tests", "leave it out"), "--hellaswag", "--winogrande",
          "--multiple-choice"),
    *_all(Absent("there is one way to measure", "leave it out", has_value=True), "--ppl-stride"),
)))
"""Options of llama-perplexity, for ``unladen perplexity``."""

TOKENIZE: Final[Mapping[str, Meaning]] = MappingProxyType(dict((
    *_all(Special("prompt"), "-p", "--prompt"), *_all(Special("file"), "-f", "--file"),
    *_all(Idle(), "--ids", "--stdin"), *_all(Same("--no-special", has_value=False),
                                             "--no-parse-special"),
    *_all(Absent("ids are listed, not counted", "pipe them into wc -w"), "--show-count"),
)))
"""Options of llama-tokenize, for ``unladen tokenize``."""

BY_COMMAND: Final[Mapping[str, Mapping[str, Meaning]]] = MappingProxyType({
    "run": RUN, "bench": BENCH, "perplexity": PERPLEXITY, "tokenize": TOKENIZE, "plan": {},
    "show": {}})
"""The commands that understand llama.cpp's options, each with the options that only it has."""

STEPS: Final[Mapping[str, str]] = MappingProxyType({
    "typ_p": "typical_p", "top_nsigma": "top_n_sigma", "temp": "temperature", "top-k": "top_k",
    "top-p": "top_p", "min-p": "min_p", "typical": "typical_p", "typ-p": "typical_p",
    "top-n-sigma": "top_n_sigma"})
"""Steps of the sampler by llama.cpp's names, where they differ from unladen's."""

LETTERS: Final[Mapping[str, str]] = MappingProxyType({
    "e": "penalties", "d": "dry", "s": "top_n_sigma", "k": "top_k", "y": "typical_p", "p": "top_p",
    "m": "min_p", "x": "xtc", "t": "temperature"})
"""Steps of the sampler by llama.cpp's letters."""

RULES: Final[Mapping[str, str]] = MappingProxyType({
    "model": "the model", "hub": "the model, on Hugging Face", "hub_file": "the model's file there",
    "token": "the token for Hugging Face", "offline": "no network: only what was downloaded before",
    "batch": "`--batch-size`, unless `-ub` is given", "ubatch": "`--batch-size`",
    "devices": "`--device`", "shares": "`--tensor-split`", "keys": "`--kv-type` of keys",
    "values": "`--kv-type` of values", "no_op_offload": "`--stream-weights off`",
    "prompt": "the text", "file": "a file with the text, without its last line break",
    "escapes": r"`\n` and the like in the text are escapes",
    "bias": "`--logit-bias`, `TOKEN_ID+NUMBER` as well", "steps": "`--samplers`, names as there",
    "letters": "`--samplers`, letters as there", "format": "`--json` or `--csv`; `md` is the usual",
    "mmap": "`0`: `--no-mmap`", "no_kv": "`--no-kv-offload`, unless `0`"})
"""What each rule of :class:`Special` translates an option to, in Markdown for the reference."""
