import { useEffect, useState } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Line } from "../api/types.ts";
import { onServerEvent } from "../store/server.ts";
import { tell } from "../store/toasts.ts";
import { t } from "../texts/index.ts";
import { withLines } from "./lines.ts";

/** The lines of the log of the server's present `run`, and each new one. */
export function useLines(run: string): readonly Line[] {
  const [lines, setLines] = useState<readonly Line[]>([]);
  useEffect(() => {
    if (!run) return;
    setLines([]);
    let early: Line[] | null = [];
    const giveUp = new AbortController();
    const stop = onServerEvent((event) => {
      if (event.name !== "log") return;
      // Until the older lines are there, newer ones wait: their numbers must not be last.
      if (early) early.push(event.data);
      else setLines((known) => withLines(known, [event.data]));
    });
    api.log(0, giveUp.signal).then(
      ({ lines: older }) => {
        const both = withLines(older, early ?? []);
        early = null;
        setLines(both);
      },
      (error: unknown) => {
        if (!giveUp.signal.aborted) tell(asProblem(error, t.frame.unreachable));
      },
    );
    return () => {
      giveUp.abort();
      stop();
    };
  }, [run]);
  return lines;
}
