import { useEffect, useState } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Options, Problem } from "../api/types.ts";
import { t } from "../texts/index.ts";
import { readPlan, type PlanFacts } from "./facts.ts";

/** Milliseconds after the last change before the server is asked. */
export const WAIT_MS = 100;

export interface Planned {
  /** The last plan that came; null before the first one. */
  plan: PlanFacts | null;
  /** Why there is no plan for the present options. */
  problem: Problem | null;
  /** Another plan is on its way. */
  isBusy: boolean;
}

/**
 * The plan of the model `ref` with `options`. It is asked for again 100 ms after they change; an
 * older request is given up, and the last plan stays until the new one is there. `stamp`: another value
 * asks again for the same options.
 */
export function usePlan(ref: string, options: Options, stamp: unknown): Planned {
  const [planned, setPlanned] = useState<Planned & { ref: string }>(
    { ref, plan: null, problem: null, isBusy: true },
  );
  const asked = JSON.stringify(options);
  useEffect(() => {
    const giveUp = new AbortController();
    setPlanned((now) => ({
      ref,
      plan: now.ref === ref ? now.plan : null,
      problem: now.ref === ref ? now.problem : null,
      isBusy: true,
    }));
    const ask = async () => {
      try {
        const plan = readPlan(await api.plan(ref, JSON.parse(asked) as Options, giveUp.signal));
        setPlanned({ ref, plan, problem: null, isBusy: false });
      } catch (error) {
        if (giveUp.signal.aborted) return;
        const problem = asProblem(error, t.frame.unreachable);
        setPlanned((now) => ({ ...now, problem, isBusy: false }));
      }
    };
    const timer = setTimeout(() => void ask(), WAIT_MS);
    return () => {
      clearTimeout(timer);
      giveUp.abort();
    };
  }, [ref, asked, stamp]);
  return planned;
}
