import { useEffect } from "react";
import { create } from "zustand";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Fit, Problem } from "../api/types.ts";
import { t } from "../texts/index.ts";

/** Models that are asked for at once: a first answer comes soon. */
const AT_ONCE = 4;

/** What is known of a model: its fit, or why the server couldn't say it. */
export type Known = Fit | { ref: string; problem: Problem };

const useKnown = create<Record<string, Known>>(() => ({}));

async function ask(refs: readonly string[], signal: AbortSignal): Promise<void> {
  for (let i = 0; i < refs.length && !signal.aborted; i += AT_ONCE) {
    const some = refs.slice(i, i + AT_ONCE);
    try {
      const { files } = await api.fit(some, signal);
      useKnown.setState(Object.fromEntries(files.map((fit) => [fit.ref, fit])));
    } catch (error) {
      if (signal.aborted) return;
      const problem = asProblem(error, t.frame.unreachable);
      useKnown.setState(Object.fromEntries(some.map((ref) => [ref, { ref, problem }])));
    }
  }
}

/** Whether the models `refs` fit, as far as it is known. They are asked for again when `stamp`
 * changes, since others may have taken memory; what was known is shown until then. */
export function useFits(refs: readonly string[], stamp: unknown): Readonly<Record<string, Known>> {
  const list = refs.join("\n");
  useEffect(() => {
    const giveUp = new AbortController();
    void ask(list ? list.split("\n") : [], giveUp.signal);
    return () => giveUp.abort();
  }, [list, stamp]);
  return useKnown();
}
