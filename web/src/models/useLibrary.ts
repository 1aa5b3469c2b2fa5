import { useCallback, useEffect, useState } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Problem, StoredFile } from "../api/types.ts";
import { onServerEvent } from "../store/server.ts";
import { t } from "../texts/index.ts";

interface Library {
  files: StoredFile[] | null;
  problem: Problem | null;
  refresh: () => void;
}

/** The models of this machine. They are asked for again when the server says that they changed, or
 * `run` shows that it is another server. */
export function useLibrary(run: string): Library {
  const [files, setFiles] = useState<StoredFile[] | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [turn, setTurn] = useState(0);
  const refresh = useCallback(() => setTurn((n) => n + 1), []);
  useEffect(() => onServerEvent((event) => {
    if (event.name === "library") refresh();
  }), [refresh]);
  useEffect(() => {
    const giveUp = new AbortController();
    api.library(giveUp.signal).then(
      (found) => {
        setFiles(found);
        setProblem(null);
      },
      (error: unknown) => {
        if (!giveUp.signal.aborted) setProblem(asProblem(error, t.frame.unreachable));
      },
    );
    return () => giveUp.abort();
  }, [run, turn]);
  return { files, problem, refresh };
}
