import { useEffect } from "react";
import { create } from "zustand";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Download } from "../api/types.ts";
import { onServerEvent } from "../store/server.ts";
import { note, tell } from "../store/toasts.ts";
import { t } from "../texts/index.ts";
import { nameOf, withEvent, type DownloadEvent } from "./downloads.ts";

const useKnown = create<{ downloads: readonly Download[] }>(() => ({ downloads: [] }));

function take(event: DownloadEvent): void {
  const before = useKnown.getState().downloads.find((each) => each.id === event.id);
  if (event.state === "done" && before && before.state !== "done")
    note(t.models.downloads.done(nameOf(event.ref)));
  useKnown.setState(({ downloads }) => ({ downloads: withEvent(downloads, event) }));
}

/** The downloads as far as the view that follows them knows. */
export const useKnownDownloads = (): readonly Download[] => useKnown((known) => known.downloads);

/** The server's downloads, which outlive the page. `run` is the server's: another one may know
 * others. */
export function useDownloads(run: string, isAllowed: boolean): readonly Download[] {
  useEffect(() => {
    if (!isAllowed) return;
    const giveUp = new AbortController();
    const stop = onServerEvent((event) => {
      if (event.name === "download") take(event.data);
    });
    api.downloads(giveUp.signal).then(
      ({ downloads }) => useKnown.setState({ downloads }),
      (error: unknown) => {
        if (!giveUp.signal.aborted) tell(asProblem(error, t.frame.unreachable));
      },
    );
    return () => {
      giveUp.abort();
      stop();
    };
  }, [run, isAllowed]);
  return useKnownDownloads();
}

async function ask(request: () => Promise<Download | undefined>): Promise<void> {
  try {
    const download = await request();
    if (download) take(download);
  } catch (error) {
    tell(asProblem(error, t.frame.unreachable));
  }
}

/** Begins to download the model `ref`. */
export const startDownload = (ref: string): Promise<void> => ask(() => api.download(ref));

export const changeDownload = (id: string, action: "pause" | "resume"): Promise<void> =>
  ask(() => api.changeDownload(id, action));

export const removeDownload = (id: string): Promise<void> =>
  ask(async () => {
    await api.deleteDownload(id);
    take({ id, state: "deleted" });
    return undefined;
  });
