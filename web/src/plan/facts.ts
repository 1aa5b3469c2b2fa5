/** The answer of `/ui/api/plan`: a plan on paper. The same form describes a loaded model. */

import type { PlanFacts as ApiPlan, Resolved } from "../api/types.ts";

/** What a plan puts on one device, in bytes. `taken_bytes`: null before it is allocated. */
export interface PlanDevice {
  name: string;
  description: string;
  n_layers: number;
  mapped_bytes: number;
  weight_bytes: number;
  kv_bytes: number;
  arena_bytes: number;
  ring_bytes: number;
  staging_bytes: number;
  free_bytes: number;
  left_bytes: number;
  total_bytes: number;
  taken_bytes: number | null;
  is_host: boolean;
  is_pretend: boolean;
}

/** A prediction of one step: its tokens a second, and the term that limits it. */
export interface Predicted {
  n_tokens: number;
  seconds: number;
  tokens_per_second: number;
  bound: string;
  terms: Record<string, number>;
}

/** A layer's bytes. `experts_on_cpu`: those of experts that stay there while the layer doesn't. */
export interface LayerBytes {
  weights: number;
  kv: number;
  experts_on_cpu: number;
}

/** One graph of a plan: the language model is "main". */
export interface PlanGraph {
  name: string;
  layers: string[];
}

export interface PlanFacts {
  model: string;
  context_size: number;
  cache_tokens: number;
  fits: boolean;
  devices: PlanDevice[];
  layers: string[];
  layer_bytes: LayerBytes[];
  end_bytes: { embeddings: number; head: number } | null;
  embeddings: string;
  head: string;
  n_cpu_moe: number;
  streamed_from_n_tokens: number | null;
  decode: Predicted;
  prefill: Predicted;
  graphs: PlanGraph[];
  resolved: Record<string, Resolved>;
}

/** `given`, the answer of the server, as a plan. A list that it lacks is empty. */
export function readPlan(given: ApiPlan): PlanFacts {
  const plan = given as unknown as PlanFacts;
  return {
    ...plan, layer_bytes: plan.layer_bytes ?? [], end_bytes: plan.end_bytes ?? null,
    graphs: plan.graphs ?? [], resolved: given.resolved ?? {},
  };
}
