"""Measures how long an interrupt takes to end a generation, in prefill and in decode.

    python benchmarks/interrupt.py MODEL.gguf

It sends SIGINT to itself at random moments, and checks after each that the model still gives the
same answer.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time

from unladen import Model

N_ROUNDS = 10
"""Interrupts in each of prefill and decode."""
LIMIT_S = 0.3
"""Seconds within which an interrupt should end a call."""


def interrupt(model: Model, prompt: list[int], max_tokens: int, after_s: float) -> float:
    """Seconds from the signal to the exception."""
    sent = 0.0

    def send() -> None:
        nonlocal sent
        sent = time.perf_counter()
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(after_s, send)
    timer.start()
    try:
        model.generate(prompt, max_tokens=max_tokens, temperature=0.0)
    except KeyboardInterrupt:
        return time.perf_counter() - sent
    timer.cancel()
    raise SystemExit("the generation ended before the signal came: use a larger model")


def main() -> None:
    model = Model(sys.argv[1], context_size=4096)
    rng = random.Random(0)
    n_vocab = model.architecture.n_vocab
    short = [rng.randrange(n_vocab) for _ in range(8)]
    expected = model.generate(short, max_tokens=4, temperature=0.0).tokens
    for what, n_prompt, delay in (("prefill", 2000, (0.05, 1.0)), ("decode", 8, (0.7, 2.0))):
        times = []
        for _ in range(N_ROUNDS):
            prompt = [rng.randrange(n_vocab) for _ in range(n_prompt)]
            times.append(interrupt(model, prompt, 2000, rng.uniform(*delay)))
            if model.generate(short, max_tokens=4, temperature=0.0).tokens != expected:
                raise SystemExit(f"after an interrupt in {what} the model answers otherwise")
        print(f"{what}: {N_ROUNDS} interrupts, at most {max(times):.3f} s, "
              f"{'within' if max(times) <= LIMIT_S else 'OVER'} the limit of {LIMIT_S} s")


if __name__ == "__main__":
    main()
