"""A process that resident.py measures: python resident_worker.py ours|peer model.gguf.

It imports nothing else, so all resident memory is the program's. It writes a line of JSON.
"""

from __future__ import annotations

import sys

import numpy  # noqa: F401  # as both need it

N_PROMPT, N_GEN = 480, 32
kept = []


def resident() -> dict[str, int]:
    """The process's resident bytes, by the kernel's names."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return {key: int(fields[key].split()[0]) * 1024 for key in ("VmRSS", "RssAnon")}


def ours(path: str) -> int:
    """Run unladen; returns the bytes of the cache of one whole sequence."""
    from unladen import Model
    model = Model(path, devices=["cpu"], context_size=N_PROMPT + N_GEN)
    kept.append(model)
    model.generate(list(range(100, 100 + N_PROMPT)), max_tokens=N_GEN, temperature=0.0,
                   ignore_eos=True)
    plan = model.engine.plan
    limits = plan.blueprint.limits
    return sum(b.nbytes // limits.n_blocks * limits.n_blocks_per_seq
               for kv in plan.kv.values() for b in (kv.k, kv.v))


def peer(path: str) -> int:
    """Run llama-cpp-python; returns the bytes of its cache, which has the same size as unladen's.
    """
    from llama_cpp import Llama
    model = Llama(path, n_ctx=N_PROMPT + N_GEN, verbose=False)
    kept.append(model)
    for i, _ in enumerate(model.generate(list(range(100, 100 + N_PROMPT)), temp=0.0), 1):
        if i == N_GEN:
            break
    return 0


if __name__ == "__main__":
    before = resident()
    kv_bytes = {"ours": ours, "peer": peer}[sys.argv[1]](sys.argv[2])
    after = resident()
    print(f'{{"before": {before["VmRSS"]}, "all": {after["VmRSS"]}, '
          f'"anonymous": {after["RssAnon"]}, "kv_bytes": {kv_bytes}}}')
