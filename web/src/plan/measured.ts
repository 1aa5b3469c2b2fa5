/** How fast a loaded model really is. */

import { useEffect, useState } from "react";
import type { ModelState, ServerState } from "../api/types.ts";
import { useMeasurements, type Measured } from "../store/measured.ts";
import { onServerEvent, useServer } from "../store/server.ts";

/** Seconds of samples that are kept. */
const WINDOW = 120;

/**
 * The mean of the last run of whole busy seconds in `values`, one a second. A run's first and last
 * second are only partly busy, so they don't count; null where no whole second is left.
 */
export function lastRate(values: readonly number[]): number | null {
  let run: number[] = [];
  for (let i = values.length - 1; i >= -1; i--) {
    const value = values[i] ?? 0;
    if (value > 0) {
      run.push(value);
      continue;
    }
    const whole = run.slice(1, -1);
    if (whole.length > 0) return whole.reduce((sum, each) => sum + each, 0) / whole.length;
    run = [];
  }
  return null;
}

/** Whether the server's samples, which are sums over all models, are those of one model. */
const isAlone = (state: ServerState | null) =>
  state?.models.filter((model) => model.state === "ready").length === 1;

/**
 * Tokens a second of `model` since it was loaded or moved, null where nothing is known: those of
 * the last answer in this tab, else those that the server has counted while the page looked.
 */
export function useMeasured(
  model: ModelState | undefined,
): Pick<Measured, "decode" | "prefill"> {
  const told = useMeasurements((all) => (model ? all[model.id] : undefined));
  const alone = useServer((server) => isAlone(server.state));
  const [samples, setSamples] = useState<readonly number[]>([]);
  const arrived = model?.arrived;
  useEffect(() => {
    setSamples([]);
    return onServerEvent((event) => {
      if (event.name === "metrics")
        setSamples((known) => [...known, event.data.decode_tps].slice(-WINDOW));
    });
  }, [arrived, model?.id]);
  const mine = told?.arrived === arrived ? told : undefined;
  const seen = alone && model?.state === "ready" ? lastRate(samples) : null;
  return {
    decode: mine?.decode ?? (seen === null ? null : { per_second: seen, n_tokens: null }),
    prefill: mine?.prefill ?? null,
  };
}
