"""What a decode step costs the host on a GPU: uploading the step, encoding and submitting it.

    python benchmarks/gpu_step.py MODEL.gguf [DEVICE]

The device's own time is not in it: each step is waited for before the next is measured.
"""

from __future__ import annotations

import statistics
import sys
import time

from unladen import Model
from unladen.backends import backend_of
from unladen.cache import CachedSequence
from unladen.engine.batcher import Work, fill
from unladen.engine.request import Request
from unladen.sample import SamplerChain
from unladen.tokenizer import StreamDecoder

N_STEPS, N_WARM = 30, 3


def main() -> None:
    name = sys.argv[2] if len(sys.argv) > 2 else "wgpu:0"
    model = Model(sys.argv[1], devices=[name], context_size=256)
    plan = model.engine.plan
    backend = backend_of(name)
    device = plan.draft.devices[0]
    sequence: CachedSequence = model.engine.sequence()
    request = Request([1], sampler=SamplerChain().build(), decoder=StreamDecoder(model.tokenizer))
    request.cached = sequence
    times = []
    for n in range(N_STEPS + N_WARM):
        assert sequence.reserve(n + 1)
        fill(plan.batch, [Work(request, 1, 1)])
        start = time.perf_counter()
        plan.run()
        times.append(1e3 * (time.perf_counter() - start))
        backend.sync(device)
        sequence.commit(request.tokens, n + 1)
        request.tokens.append(1)
    print(f"{name}: {statistics.median(times[N_WARM:]):.2f} ms a step on the host (median of "
          f"{N_STEPS}, least {min(times[N_WARM:]):.2f})")


if __name__ == "__main__":
    main()
