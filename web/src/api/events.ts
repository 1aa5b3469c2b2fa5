import { send } from "./client.ts";
import { ApiError } from "./problem.ts";
import { sseEvents } from "./sse.ts";
import type { Download, Line, Sample, ServerState } from "./types.ts";

export interface ServerEvents {
  state: ServerState;
  metrics: Sample;
  download: Download | { id: string; state: "deleted" };
  library: Record<string, never>;
  log: Line;
}

export type ServerEvent = {
  [K in keyof ServerEvents]: { name: K; data: ServerEvents[K] };
}[keyof ServerEvents];

/** Milliseconds before the first new try, and the most between two. */
const [FIRST_WAIT, LONGEST_WAIT] = [500, 5000];

export interface Watching {
  onEvent: (event: ServerEvent) => void;
  /** `error` is what broke the connection; null: it stands. */
  onConnection: (error: unknown) => void;
  signal: AbortSignal;
}

/** Follows the server's events until `signal`; connects again where the last one ended. */
export async function watchServer({ onEvent, onConnection, signal }: Watching): Promise<void> {
  let after = "";
  let run = "";
  let wait = FIRST_WAIT;
  while (!signal.aborted) {
    try {
      const path = `/ui/api/events${after ? `?after=${after}` : ""}`;
      const response = await send(path, { signal, accept: "text/event-stream" });
      if (!response.body) throw new TypeError("no body");
      for await (const event of sseEvents(response.body)) {
        wait = FIRST_WAIT;
        const known = { name: event.event, data: JSON.parse(event.data) } as ServerEvent;
        if (known.name === "state") {
          // Another run of the server counts its events from the beginning.
          if (run && run !== known.data.run) after = "";
          run = known.data.run;
          onConnection(null);
        }
        if (event.id) after = event.id;
        onEvent(known);
      }
      throw new TypeError("the connection ended");
    } catch (error) {
      if (signal.aborted) return;
      onConnection(error);
      // Without a key each try is refused: the page asks for one and begins again.
      if (error instanceof ApiError && error.status === 401) return;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(LONGEST_WAIT, wait * 2);
  }
}
