"""A pass from a stranger's folder that adds low-rank products to weights, as an adapter does: no
file of ours is touched, and no backend lists it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tiny_model import N_VOCAB, write_tiny

PASS = '''
"""Adds B A x to each product W x for which there are A and B."""

from unladen.graph.graph import Node, Value, Weight

PHASE = "adapt"
RANK = 4
ADAPTED = {adapted}


def run(graph):
    nodes = []
    for node in graph.nodes:
        outputs, added = list(node.outputs), []
        for i, value in enumerate(node.outputs):
            weight = node.weights.get(f"w{{i}}")
            if node.op == "linear" and weight.tensor in ADAPTED:
                outputs[i] = Value(value.name + ".plain", value.shape)
                added += low_rank(node, weight, outputs[i], value)
        nodes += [Node(node.name, node.op, node.inputs, tuple(outputs), node.weights, node.attrs,
                       node.state, node.layer), *added]
    return graph.replace_nodes(nodes)


def low_rank(node, weight, plain, value):
    name, n_rows = weight.tensor, weight.shape[0]
    a = Value(name + ".a", ("T", RANK))
    b = Value(name + ".b", ("T", n_rows))
    yield Node(a.name, "linear", node.inputs, (a,),
               {{"w0": Weight(name + ".lora_a", (RANK, weight.shape[1]), "F32")}}, layer=node.layer)
    yield Node(b.name, "linear", (a,), (b,),
               {{"w0": Weight(name + ".lora_b", (n_rows, RANK), "F32")}}, layer=node.layer)
    yield Node(name + ".sum", "add", (plain, b), (value,), layer=node.layer)
'''

PROGRAM = '''
import json, sys
import numpy as np
from unladen import Model
from unladen.graph import passes

path, tokens = sys.argv[1], json.loads(sys.argv[2])
result = {"order": [p.name for p in passes.ordered(passes.registry())]}
for device in ("reference", "cpu"):
    with Model(path, kv_type="f32", devices=[device]) as model:
        with model.tap(["blk.1.attn_out"]) as taps:
            tapped = model.logits(tokens)
        logits = model.logits(tokens)
        assert np.abs(tapped - logits).max() < 1e-3
        nodes = [line.split()[:2] for line in model.placement().splitlines()]
        result[device] = {"logits": logits.tolist(), "nodes": nodes,
                          "tapped": taps["blk.1.attn_out"].tolist()}
print(json.dumps(result))
'''

RANK = 4
SHAPES = {"blk.0.attn_q": (64, 64), "blk.1.attn_output": (64, 64), "blk.1.ffn_up": (128, 64),
          "blk.2.ffn_down": (64, 128)}


def run(path: Path, tokens: list[int], plugins: Path | None) -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "UNLADEN_PLUGIN_PATH"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path), json.dumps(tokens)], text=True, check=False,
        env=environment | ({"UNLADEN_PLUGIN_PATH": str(plugins)} if plugins else {}),
        capture_output=True)
    assert done.returncode == 0, done.stderr
    # The architecture itself doesn't ask for the adapters' tensors. No other warning: no plug-in is
    # left out, and every op runs where it is placed.
    assert all("aren't used" in line for line in done.stderr.splitlines()), done.stderr
    return dict(json.loads(done.stdout))


def test_low_rank_products_are_what_merged_weights_give(tmp_path: Path, rng: np.random.Generator
                                                        ) -> None:
    """On both devices; fusions go round the new nodes, and are as they were elsewhere."""
    whole, low, merged = {}, {}, {}
    for name, (n, m) in SHAPES.items():
        w, a, b = (rng.standard_normal(shape).astype(np.float32) / np.float32(8)
                   for shape in ((n, m), (RANK, m), (n, RANK)))
        whole[f"{name}.weight"] = w
        low |= {f"{name}.weight.lora_a": a, f"{name}.weight.lora_b": b}
        merged[f"{name}.weight"] = (w.astype(np.float64) + b.astype(np.float64) @ a
                                    ).astype(np.float32)
    (tmp_path / "passes").mkdir()
    (tmp_path / "passes/zz_low_rank.py").write_text(PASS.format(adapted=repr(set(whole))))
    seed, tokens = int(rng.integers(2**31)), rng.integers(3, N_VOCAB, 20).tolist()
    with_low, plain, with_merged = (
        write_tiny(tmp_path / f"{i}.gguf", np.random.default_rng(seed), changed=changed)
        for i, changed in enumerate(({**whole, **low}, whole, merged)))
    mine, expected = run(with_low, tokens, tmp_path), run(with_merged, tokens, None)
    unlike = run(plain, tokens, None)
    assert mine["order"][0] == "zz_low_rank" and mine["order"][1:] == expected["order"]
    for key in ("logits", "tapped"):
        wanted = np.array(expected["reference"][key])
        # Float32 roundings of a few thousand sums, against values of the size of their spread.
        most = 1e-4 * max(1.0, float(wanted.std()))
        assert np.abs(np.array(unlike["reference"][key]) - wanted).max() > 100 * most
        for device in ("reference", "cpu"):
            assert np.abs(np.array(mine[device][key]) - wanted).max() < most, (device, key)
    nodes = [dict(r["cpu"]["nodes"]) for r in (mine, expected)]
    assert nodes[1].keys() <= nodes[0].keys()
    # The sum with B A x is part of the second low-rank product. So a residual stream that was
    # added by the plain product is a node of its own, and so is a gated unit.
    assert nodes[0].keys() - nodes[1].keys() == {
        "blk.1.attn_residual", "blk.1.ffn_glu", "blk.2.ffn_residual",
        *(f"{name}.{part}" for name in whole for part in "ab")}
