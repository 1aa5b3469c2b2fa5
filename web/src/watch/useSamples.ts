import { useEffect, useState } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Columns } from "../api/types.ts";
import { onServerEvent } from "../store/server.ts";
import { tell } from "../store/toasts.ts";
import { t } from "../texts/index.ts";
import { NOTHING, SECONDS, withSample } from "./samples.ts";

/** The samples of the last ten minutes, a new one each second. */
export function useSamples(run: string): Columns {
  const [columns, setColumns] = useState(NOTHING);
  useEffect(() => {
    if (!run) return;
    const giveUp = new AbortController();
    const stop = onServerEvent((event) => {
      if (event.name === "metrics") setColumns((known) => withSample(known, event.data));
    });
    api.metrics(SECONDS, giveUp.signal).then(setColumns, (error: unknown) => {
      if (!giveUp.signal.aborted) tell(asProblem(error, t.frame.unreachable));
    });
    return () => {
      giveUp.abort();
      stop();
    };
  }, [run]);
  return columns;
}
