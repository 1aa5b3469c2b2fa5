import { create } from "zustand";
import type { ModelState } from "../api/types.ts";

/** Tokens a second of a model's last answer in this tab. `arrived` is the model's count of moves
 * then: after another move its speed is another. */
export interface Measured {
  arrived: number;
  decode: number | null;
  prefill: number | null;
}

/** What was measured last, by the model's id. */
export const useMeasurements = create<Record<string, Measured>>(() => ({}));

/** The part of an answer's `timings` that says how fast it was. */
export interface Speeds {
  prompt_per_second?: number | undefined;
  predicted_per_second?: number | undefined;
}

/** Keeps how fast an answer of `model` was. A part of it that was too short says nothing. */
export function tellMeasured(model: ModelState | undefined, speeds: Speeds | null): void {
  if (!model || !speeds) return;
  const known = (value: number | undefined) => (value !== undefined && value > 0 ? value : null);
  useMeasurements.setState({
    [model.id]: {
      arrived: model.arrived, decode: known(speeds.predicted_per_second),
      prefill: known(speeds.prompt_per_second),
    },
  });
}
