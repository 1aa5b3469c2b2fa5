import { create } from "zustand";
import type { ModelState } from "../api/types.ts";
import type { Timings } from "./records.ts";

/** Tokens a second, and how many tokens they were measured over; null: it isn't known. */
export interface Rate {
  per_second: number;
  n_tokens: number | null;
}

/** How fast the last answers of a model were. `arrived` is the model's count of moves then: after
 * another move its speed is another. */
export interface Measured {
  arrived: number;
  decode: Rate | null;
  prefill: Rate | null;
}

/** Shorter answers and prompts say nothing: their time is that of a few steps. */
const LEAST = { decode: 8, prefill: 16 };

/** What was measured last in this tab, by the model's id. */
export const useMeasurements = create<Record<string, Measured>>(() => ({}));

function rateOf(
  per_second: number | undefined, n_tokens: number | undefined, least: number,
): Rate | null {
  return per_second && n_tokens && n_tokens >= least ? { per_second, n_tokens } : null;
}

/** Keeps how fast an answer of `model` was. What is too short leaves what was known. */
export function tellMeasured(model: ModelState | undefined, timings: Timings | null): void {
  if (!model || !timings) return;
  const known = useMeasurements.getState()[model.id];
  const before = known?.arrived === model.arrived ? known : null;
  const decode = rateOf(timings.predicted_per_second, timings.predicted_n, LEAST.decode);
  const prefill = rateOf(timings.prompt_per_second, timings.prompt_n, LEAST.prefill);
  useMeasurements.setState({
    [model.id]: {
      arrived: model.arrived, decode: decode ?? before?.decode ?? null,
      prefill: prefill ?? before?.prefill ?? null,
    },
  });
}
