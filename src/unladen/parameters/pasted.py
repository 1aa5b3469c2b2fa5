"""Parameters of other programs: which parameter of this package each means, or what to do instead.

The names come from llama-cpp-python's ``Llama``, llama.cpp's and Ollama's options, transformers'
``generate`` and OpenAI's requests. A name is accepted if it means the same here; otherwise the
error says what to do. A value that asks for nothing (``logits_all=False``) is accepted, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from unladen.parameters.table import Foreign, Others, Synonym

_AS_THE_FILE = "the file's own value holds: leave it out"
"""What to do about a parameter that overrides a file's value."""
_NO_CONTEXT: Mapping[object, object] = MappingProxyType({0: None})
_NO_END: Mapping[object, object] = MappingProxyType({-1: None, -2: None})

_TORCH: Mapping[str, str] = MappingProxyType({
    "cpu": "cpu", "cuda": "cuda", "rocm": "hip", "hip": "hip", "mps": "metal", "xpu": "sycl",
    "vulkan": "wgpu", "wgpu": "wgpu", "opencl": "opencl"})
"""Kinds of devices as torch and others call them, and the backends here."""


def _devices_for(value: object) -> str:
    """What to write instead of the ``value`` of another program's ``device``."""
    kind, _, number = str(value).lower().partition(":")
    names = dict.fromkeys([f"{_TORCH.get(kind, 'wgpu')}:{number or 0}", "cpu:0"])
    return "use devices=[" + ", ".join(f'"{name}"' for name in names) + "]"


MODEL_NAMES: Others = MappingProxyType({
    **{name: Synonym("context_size", _NO_CONTEXT)  # 0: as the file says
       for name in ("n_ctx", "num_ctx", "ctx_size", "context_length", "max_model_len",
                    "max_seq_len")},
    "n_batch": Synonym("batch_size"), "n_ubatch": Synonym("batch_size"),
    "num_batch": Synonym("batch_size"), "n_seq_max": Synonym("max_seqs"),
    "num_gpu": Synonym("n_gpu_layers"), "gpu_layers": Synonym("n_gpu_layers"),
    "num_thread": Synonym("n_threads"), "threads": Synonym("n_threads"),
    "offload_kqv": Synonym("kv_offload"), "mmap": Synonym("use_mmap"),
    "mlock": Synonym("use_mlock"),
    "logits_all": Foreign("use Model.logits(ids)", (False,)),
    "embedding": Foreign("use Model.embed(texts): it needs no switch", (False,)),
    "embeddings": Foreign("use Model.embed(texts): it needs no switch", (False,)),
    "verbose": Foreign("logging.basicConfig(level=logging.INFO) shows what is loaded where",
                       (False,)),
    "flash_attn": Foreign("attention never keeps the whole score matrix: leave it out",
                          (True, "auto", "on")),
    "f16_kv": Foreign('use kv_type="f32"', (True,)),
    "low_vram": Foreign("use kv_offload=False", (False,)),
    "seed": Foreign("give seed to generate() or stream()", (-1, 0xFFFFFFFF, None)),
    "last_n_tokens_size": Foreign("give penalty_last_n to generate()", (64,)),
    "n_keep": Foreign("a full context ends the text: nothing is shifted out"),
    "num_keep": Foreign("a full context ends the text: nothing is shifted out"),
    "draft_model": Foreign("speculate=True guesses from the text itself", (None,)),
    "op_offload": Foreign("use stream_weights", (None,)),
    "swa_full": Foreign("windows always keep their whole cache: leave it out", (None, True)),
    "no_perf": Foreign("Completion.timings has the times", (False,)),
    "lora_base": Foreign("merge the adapter into the model's file first", (None,)),
    "lora_path": Foreign("merge the adapter into the model's file first", (None,)),
    "lora_scale": Foreign("merge the adapter into the model's file first", (1.0,)),
    "chat_format": Foreign("write the template's text yourself and pass it to generate()",
                           (None,)),
    "chat_handler": Foreign("write the template's text yourself and pass it to generate()",
                            (None,)),
    "clip_model_path": Foreign("pictures aren't understood here", (None,)),
    "mmproj": Foreign("pictures aren't understood here", (None,)),
    "repo_id": Foreign('Model("org/repo:Q4_K_M") fetches it'),
    "filename": Foreign('Model("hf://org/repo/file.gguf") fetches it'),
    "device": Foreign('use devices=["wgpu:0", "cpu"]', ("auto",), _devices_for),
    "device_map": Foreign('use devices=["wgpu:0", "cpu"] and n_gpu_layers', ("auto",),
                          _devices_for),
    "torch_dtype": Foreign("weights are computed with as the file has them", ("auto", None)),
    "tensor_parallel_size": Foreign('use split_mode="tensor"', (1,)),
    "gpu_memory_utilization": Foreign("use n_gpu_layers, or a smaller context_size"),
    "kv_overrides": Foreign(_AS_THE_FILE, (None,)),
    "spm_infill": Foreign("write the infill tokens into the prompt yourself", (False,)),
    "pooling_type": Foreign("give pooling to Model.embed()", (-1,)),
    "attention_type": Foreign(_AS_THE_FILE, (-1,)),
    "rope_scaling_type": Foreign(_AS_THE_FILE, (-1, None)),
    **{name: Foreign(_AS_THE_FILE, (0, 0.0)) for name in ("rope_freq_base", "rope_freq_scale")},
    "yarn_ext_factor": Foreign(_AS_THE_FILE, (-1.0, -1)),
    "yarn_attn_factor": Foreign(_AS_THE_FILE, (1.0, 1)),
    "yarn_beta_fast": Foreign(_AS_THE_FILE, (32.0, 32)),
    "yarn_beta_slow": Foreign(_AS_THE_FILE, (1.0, 1)),
    "yarn_orig_ctx": Foreign(_AS_THE_FILE, (0,)),
    **{name: Foreign('use kv_type=("q8_0", "f16"): types by name, keys and values', (None,))
       for name in ("type_k", "type_v", "cache_type_k", "cache_type_v")},
})
"""Other names for the parameters of :class:`unladen.Model`, ``plan`` and ``place``. ``model_path``
is ``path``; the types of keys and values, if given by name, become ``kv_type``."""

_SAMPLER = "build a SamplerChain with it and pass that as sampler"
_GRAMMAR = "use response_format=unladen.grammar(text)"
_ANY_JSON: Mapping[object, object] = MappingProxyType({"json": {"type": "object"}})
_ENDS = "the file says which tokens end a text"

GENERATION_NAMES: Others = MappingProxyType({
    **{name: Synonym("max_tokens", _NO_END)
       for name in ("max_new_tokens", "n_predict", "num_predict", "max_completion_tokens")},
    "stop_strings": Synonym("stop"), "stop_sequences": Synonym("stop"),
    "top_logprobs": Synonym("logprobs"), "n_probs": Synonym("logprobs"),
    "temp": Synonym("temperature"), "typ_p": Synonym("typical_p"),
    "typical": Synonym("typical_p"), "mirostat_mode": Synonym("mirostat"),
    "mirostat_ent": Synonym("mirostat_tau"), "mirostat_lr": Synonym("mirostat_eta"),
    "dynatemp_exp": Synonym("dynatemp_exponent"),
    "repetition_penalty": Synonym("repeat_penalty"),
    "penalty_repeat": Synonym("repeat_penalty"), "penalty_freq": Synonym("frequency_penalty"),
    "penalty_present": Synonym("presence_penalty"),
    "present_penalty": Synonym("presence_penalty"),
    "repeat_last_n": Synonym("penalty_last_n"), "samplers": Synonym("order"),
    "dry_sequence_breaker": Synonym("dry_sequence_breakers"),
    "do_sample": Foreign("temperature=0.0 takes the likeliest token", (True,)),
    "tfs_z": Foreign("tail-free sampling isn't there: use typical_p or top_n_sigma",
                     (1, 1.0)),
    "penalize_nl": Foreign("give logit_bias for the tokens of line breaks", (False,)),
    "logits_processor": Foreign(f"SamplerChain().step(...) takes a step of yours: {_SAMPLER}",
                                (None,)),
    "stopping_criteria": Foreign("leave the loop over Model.stream() when it is enough", (None,)),
    **{name: Foreign(_GRAMMAR, (None,)) for name in ("grammar", "guided_grammar")},
    **{name: Foreign("use response_format=unladen.regex(pattern)", (None,))
       for name in ("regex", "guided_regex")},
    **{name: Synonym("response_format", _ANY_JSON)
       for name in ("json_schema", "guided_json", "format")},
    "stream": Foreign("use Model.stream() or Model.astream()", (False,)),
    "streamer": Foreign("use Model.stream() or Model.astream()", (None,)),
    "echo": Foreign("put the prompt before Completion.text", (False,)),
    "return_full_text": Foreign("put the prompt before Completion.text", (False,)),
    "suffix": Foreign("write the infill tokens into the prompt yourself", (None,)),
    "n": Foreign("give the prompt several times: generate([prompt] * n)", (1, None)),
    "best_of": Foreign("give the prompt several times: generate([prompt] * n)", (1, None)),
    "num_return_sequences": Foreign("give the prompt several times: generate([prompt] * n)", (1,)),
    "num_beams": Foreign("there are no beams: leave it out", (1,)),
    "max_length": Foreign("use max_tokens, which counts the new tokens alone"),
    "min_new_tokens": Foreign("ignore_eos=True goes on to max_tokens", (0, None)),
    "stop_token_ids": Foreign("give texts to stop", (None,)),
    "eos_token_id": Foreign(_ENDS, (None,)), "pad_token_id": Foreign(_ENDS, (None,)),
    "cache_prompt": Foreign("prompts that begin alike always share their cache", (True,)),
    "n_keep": Foreign("a full context ends the text: nothing is shifted out", (0,)),
    "num_ctx": Foreign("give context_size to Model"),
    "messages": Foreign("write the template's text yourself and pass it as prompt"),
})
"""Other names for the parameters of ``generate``, ``stream``, ``agenerate`` and ``astream``."""

METHODS: Mapping[str, str] = MappingProxyType({
    "create_completion": "generate(), or stream()", "complete": "generate()",
    "create_chat_completion": "generate() with the template's text as prompt",
    "create_embedding": "embed()", "encode": "tokenize(), or embed()", "decode": "detokenize()",
    "eval": "logits()", "scores": "logits()", "sample": "generate(), or a SamplerChain",
    "n_ctx": "context_size", "n_vocab": "tokenizer.n_vocab", "n_embd": "architecture.n_embd",
    "token_bos": "tokenizer.bos_id", "token_eos": "tokenizer.eos_id",
    "to": "place()", "predict": "generate()"})
"""Methods of other programs' models, and those of ``unladen.Model`` that do the same. The error for
an unknown attribute names them."""
