import { create } from "zustand";
import { onKeyRefused } from "../api/client.ts";
import { watchServer, type ServerEvent } from "../api/events.ts";
import { setKey } from "../api/key.ts";
import { asProblem } from "../api/problem.ts";
import type { ModelState, Problem, ServerState } from "../api/types.ts";
import { t } from "../texts/index.ts";

interface Server {
  /** null until the server has answered once. It stays while the connection is lost. */
  state: ServerState | null;
  connection: "connecting" | "open" | "lost";
  problem: Problem | null;
  /** The page must ask for a key; `wrong`: it had one. */
  key: "fine" | "missing" | "wrong";
}

export const useServer = create<Server>(() => ({
  state: null,
  connection: "connecting",
  problem: null,
  key: "fine",
}));

type Listener = (event: ServerEvent) => void;
const listeners = new Set<Listener>();

/** Calls `listener` with each event of the server: metrics, downloads, lines of the log. */
export function onServerEvent(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let running: AbortController | null = null;

/** Follows the server's events, from now on and with the present key. */
export function connect(): void {
  running?.abort();
  running = new AbortController();
  void watchServer({
    signal: running.signal,
    onEvent(event) {
      if (event.name === "state") useServer.setState({ state: event.data });
      for (const listener of listeners) listener(event);
    },
    onConnection(error) {
      useServer.setState(
        error === null
          ? { connection: "open", problem: null, key: "fine" }
          : { connection: "lost", problem: asProblem(error, t.frame.unreachable) },
      );
    },
  });
}

/** Uses `key` from now on. */
export function enterKey(key: string): void {
  setKey(key);
  useServer.setState({ key: "fine", connection: "connecting" });
  connect();
}

onKeyRefused(() => {
  const had = sessionStorage.getItem("unladen.key") !== null;
  useServer.setState({ key: had ? "wrong" : "missing" });
});

/** The model called `id`, by its name or another of its names. */
export function findModel(state: ServerState | null, id: string): ModelState | undefined {
  return state?.models.find((model) => model.id === id || model.aliases.includes(id));
}
