import { useEffect, useState } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { ModelState } from "../api/types.ts";
import { tell } from "../store/toasts.ts";
import { t } from "../texts/index.ts";
import { readPlan, type PlanFacts } from "./facts.ts";

/** The plan that `model` has in memory; null where it isn't loaded. */
export function useAllocated(model: ModelState | undefined): PlanFacts | null {
  const [plan, setPlan] = useState<PlanFacts | null>(null);
  const id = model?.id;
  const isIn = model?.state === "ready" || model?.state === "moving";
  const arrived = model?.arrived;
  useEffect(() => {
    if (id === undefined || !isIn) {
      setPlan(null);
      return;
    }
    const giveUp = new AbortController();
    api.model(id, giveUp.signal).then(
      (detail) => setPlan(detail.plan && readPlan(detail.plan)),
      (error: unknown) => {
        if (!giveUp.signal.aborted) tell(asProblem(error, t.frame.unreachable));
      },
    );
    return () => giveUp.abort();
  }, [id, isIn, arrived]);
  return plan;
}

/** The bytes that were allocated, by device. */
export function takenIn(plan: PlanFacts | null): Record<string, number> {
  return Object.fromEntries((plan?.devices ?? []).flatMap(({ name, taken_bytes }) =>
    taken_bytes === null || taken_bytes === undefined ? [] : [[name, taken_bytes]]));
}
