"""Command lines for llama.cpp work when only the program's name is changed."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from cli.conftest import Run
from unladen.cli._llamacpp import (
    BY_COMMAND,
    EVERYWHERE,
    LETTERS,
    RULES,
    STEPS,
    Idle,
    Same,
    Special,
)
from unladen.cli._pasted import Pasted
from unladen.cli.app import build_app
from unladen.sample.params import ORDER

LINES = (
    '-m MODEL -p "Once upon a time" -n 8',
    '-m MODEL -no-cnv --prompt "Once upon a time" -n 8',
    '-m MODEL -p "I believe the meaning of life is" -n 8 -no-cnv',
    '--model MODEL --prompt "Building a website can be done in 10 simple steps:" -n 8 -e',
    '-m MODEL -p "abc\\nde" -e -n 8 --temp 0.7 --top-k 40 --top-p 0.9 --min-p 0.05 '
    '--repeat-penalty 1.1 --repeat-last-n 64 -c 64 -t 2',
    "-m MODEL -f PROMPT -n 8 --color -c 128 -b 512 --seed 42",
    "-m MODEL --file PROMPT -n 8 -ngl 0 -fa on --mlock --no-mmap",
    "-m MODEL -p abc -n 8 -fa -ctk f16 -ctv f32 -ub 32 -b 64 -tb 2 --no-warmup",
    "-m MODEL -p abc -n 8 --flash-attn off --cache-type-k f32 --cache-type-v f16 --swa-full",
    "-m MODEL -p abc --n-predict 8 --ctx-size 64 --batch-size 16 --threads 1 --threads-batch 1",
    "-m MODEL -p abc --predict 8 --temperature 0.2 -s 1234 --ignore-eos --samplers "
    "'penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature'",
    "-m MODEL -p abc -n 8 --sampling-seq edskypmxt -l 5+1.5 --logit-bias 6-2 --typical 0.9",
    "-m MODEL -p abc -n 8 -sm none -mg 0 -nkvo --gpu-layers 0 -dev none",
    "-m MODEL -p abc -n 8 --log-disable --no-display-prompt --simple-io -v --no-perf",
    "-m MODEL -p abc -n 8 --mirostat 2 --mirostat-ent 5 --mirostat-lr 0.1 --seed -1 --jinja -st",
    "-m MODEL -p abc -n 8 --xtc-probability 0.5 --xtc-threshold 0.1 --dry-multiplier 0.8 "
    "--dry-base 1.75 --dry-allowed-length 2 --dry-penalty-last-n -1 --dry-sequence-breaker x",
    "-m MODEL -p abc -n 8 --dynatemp-range 0.5 --dynatemp-exp 1 --presence-penalty 0.1 "
    "--frequency-penalty 0.1 -r User: --keep 4 --no-context-shift",
    "-m MODEL -n 8 -c 0 -t -1 --numa distribute --prio 2 --poll 0 -C 3 -nr abc",
    "-mu MODEL -p abc -n 8 -np 1 -cb --check-tensors --override-tensor blk=cpu -cmoe -fit off")


@pytest.fixture
def prompt(tmp_path: Path) -> Path:
    path = tmp_path / "prompt.txt"
    path.write_text("abc de\n")
    return path


def words(line: str, model: str, prompt: Path) -> list[str]:
    return [{"MODEL": model, "PROMPT": str(prompt)}.get(w, w) for w in shlex.split(line)]


@pytest.mark.parametrize("line", LINES)
def test_runs(unladen: Run, model: str, prompt: Path, line: str) -> None:
    ran = unladen("run", *words(line, model, prompt))
    assert ran.code == 0, ran.err
    assert ran.out
    assert all(said.startswith("no effect here: ") for said in ran.err.splitlines()), ran.err


REFUSED = [
    ("-m MODEL -cnv", "one question"), ("-m MODEL -p a -i", "one question"),
    ("-m MODEL -sysf PROMPT -p hi", "not a file"), ("-m MODEL --in-prefix a -p hi", "template"),
    ("-m MODEL --chat-template-kwargs {} -p hi", "variables"),
    ("-m MODEL -p x --lora adapter.gguf", "LoRA"), ("-m MODEL -p x -md small.gguf", "draft models"),
    ("-m MODEL -p x --rope-scale 8", "file's own value"), ("-m MODEL -p x --rpc a:1", "hosts"),
    ("-m MODEL -p x --mmproj m.gguf", "pictures"), ("-m MODEL -f /no/such/file", "can't be read"),
    ("-m MODEL -m MODEL -p x", "given twice"), ("-m MODEL -p x -p y", "given twice"),
    ("-m MODEL --sampling-seq ekQ -p x", "Q"), ("-m MODEL -p", "-p needs a value")]


@pytest.mark.parametrize(("line", "word"), REFUSED)
def test_what_would_change_the_result_is_refused(unladen: Run, model: str, prompt: Path, line: str,
                                                 word: str) -> None:
    ran = unladen("run", *words(line, model, prompt))
    assert (ran.code, ran.out) == (2, "")
    error, hint = ran.err.splitlines()
    assert error.startswith("error: ") and word in error and hint.startswith("hint: ")


def rewritten(command: str, *args: str) -> list[str]:
    own = {"--max-tokens": True, "-n": True, "--temp": True, "--json": False, "--device": True,
           "--kv-type": True, "--batch-size": True, "-b": True, "--tensor-split": True,
           "--context-size": True, "-c": True, "--seed": True, "--logit-bias": True,
           "--samplers": True, "--system": True, "--template": True, "--reasoning": True}
    return Pasted(own, {**EVERYWHERE, **BY_COMMAND[command]}).rewritten(args)


@pytest.mark.parametrize(("line", "expected"), [
    ("tiny abc", "-- tiny abc"), ("tiny -- -m x", "-- tiny -m x"),
    ("-m a.gguf -p -x", "-- a.gguf -x"), ("--model=a --prompt=b=c", "-- a b=c"),
    ("tiny -p abc --json -n 3", "--json --max-tokens 3 -- tiny abc"),
    ("tiny -n -1 -c 0 --seed -1", "-- tiny"), ("tiny -b 64 -ub 32", "--batch-size 32 -- tiny"),
    ("tiny -ctk q8_0", "--kv-type q8_0,f16 -- tiny"),
    ("tiny -ts 3,1", "--tensor-split 3,1 -- tiny"), ("tiny -ts 3/1", "--tensor-split 3,1 -- tiny"),
    ("-hf org/repo -hff f.gguf abc", "-- hf://org/repo/f.gguf abc"),
    ("-hf org/repo:Q8_0 abc", "-- org/repo:Q8_0 abc"), ("tiny --unknown x", "--unknown -- tiny x"),
    ("tiny -fa -n 3", "--max-tokens 3 -- tiny"), ("tiny -fa 1 -n 3", "--max-tokens 3 -- tiny"),
    ("tiny -l 5-1", "--logit-bias 5=-1 -- tiny"), ("tiny -l 5=2", "--logit-bias 5=2 -- tiny"),
    ("tiny -sys a --chat-template b --reasoning-budget 9 c",
     "--system a --template b --reasoning 9 -- tiny c"),
    ("tiny --reasoning-budget -1 --reasoning-format none c", "-- tiny c"),
    ("tiny -dev CUDA0", "--device CUDA0 -- tiny"), ("tiny -", "-- tiny -")])
def test_rewriting(line: str, expected: str) -> None:
    assert rewritten("run", *line.split()) == expected.split()


def test_escapes() -> None:
    line = ("tiny", "-p", r"a\nb\t\\n\x41\q", "-e")
    assert rewritten("run", *line) == ["--", "tiny", "a\nb\t\\nA\\q"]


def test_a_token_is_for_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "before")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    assert rewritten("run", "tiny", "-hft", "secret", "--offline") == ["--", "tiny"]
    assert (os.environ["HF_TOKEN"], os.environ["HF_HUB_OFFLINE"]) == ("secret", "1")


def test_the_other_programs(unladen: Run, model: str, text_file: Path) -> None:
    records = json.loads(unladen("bench", "-m", model, "-p", "4", "-n", "0", "-r", "1", "-ngl", "0",
                                 "-fa", "1", "-o", "json", "-ub", "8", "-mmp", "0").out)
    assert [(r["n_prompt"], r["n_batch"]) for r in records] == [(4, 8)]
    ran = unladen("perplexity", "-m", model, "-f", text_file, "-c", "64", "-ngl", "0", "-b", "64")
    assert ran.code == 0 and ran.out.startswith("PPL = ")
    ids = unladen("tokenize", model, "abc").out
    assert unladen("tokenize", "-m", model, "-p", "abc", "--ids").out == ids
    assert unladen("show", "-m", model).code == 0


def test_meanings_are_ours() -> None:
    """The options, sampler steps and rules that the tables name exist."""
    options = {name for command in build_app().registered_commands
               for name in _options(str(command.name))}
    for meanings in (EVERYWHERE, *BY_COMMAND.values()):
        for meaning in meanings.values():
            if isinstance(meaning, Same):
                assert meaning.option in options | {"--help"}, meaning
            elif isinstance(meaning, Special):
                assert hasattr(Pasted, f"_rule_{meaning.rule}") and RULES[meaning.rule]
            elif not isinstance(meaning, Idle):
                assert meaning.why and meaning.hint
    assert set(LETTERS.values()) == set(ORDER) and set(STEPS.values()) <= set(ORDER)


def _options(name: str) -> set[str]:
    import typer
    command = typer.main.get_command(build_app())
    params = command.commands[name].params  # type: ignore[attr-defined]
    return {option for p in params for option in (*p.opts, *p.secondary_opts)}
