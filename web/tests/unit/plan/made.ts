import type { PlanDevice, PlanFacts } from "../../../src/plan/facts.ts";

/** A device with nothing on it; `left_bytes` follows from the rest. */
export function device(name: string, given: Partial<PlanDevice> = {}): PlanDevice {
  const made: PlanDevice = {
    name, description: "", n_layers: 0, mapped_bytes: 0, weight_bytes: 0, kv_bytes: 0,
    arena_bytes: 0, ring_bytes: 0, staging_bytes: 0, free_bytes: 1000, left_bytes: 0,
    total_bytes: 1000, taken_bytes: null, is_host: false, is_pretend: false, ...given,
  };
  const needed = made.weight_bytes + made.kv_bytes + made.arena_bytes + made.ring_bytes
    + made.staging_bytes;
  return { ...made, left_bytes: given.left_bytes ?? made.free_bytes - needed };
}

/** A plan whose layers lie on `layers`. */
export function plan(
  layers: string[], devices: PlanDevice[], given: Partial<PlanFacts> = {},
): PlanFacts {
  const predicted = {
    n_tokens: 1, seconds: 0.1, tokens_per_second: 10, bound: "cpu:0 memory", terms: {},
  };
  return {
    model: "model", context_size: 512, cache_tokens: 1024, fits: true, devices, layers,
    layer_bytes: layers.map(() => ({ weights: 10, kv: 2, experts_on_cpu: 0 })),
    end_bytes: { embeddings: 7, head: 9 }, embeddings: devices[0]?.name ?? "",
    head: devices.at(-1)?.name ?? "", n_cpu_moe: 0, streamed_from_n_tokens: null,
    decode: predicted, prefill: predicted, graphs: [{ name: "main", layers }], resolved: {},
    ...given,
  };
}

/** A number from 0 to `n` - 1, another one in each run; `seed` is shown where a test fails. */
export function random(seed: number): (n: number) => number {
  let state = seed >>> 0;
  return (n) => {
    // A linear congruential generator: the constants are those of Numerical Recipes.
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}
