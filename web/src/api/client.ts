import { getKey } from "./key.ts";
import { ApiError, problemOf } from "./problem.ts";
import type * as T from "./types.ts";

/** The address of `path` at the server that sent this page. */
export function address(path: string): string {
  return new URL(path.replace(/^\//, ""), document.baseURI).href;
}

type Listener = () => void;
const refused = new Set<Listener>();

/** Calls `listener` whenever the server asks for a key. */
export function onKeyRefused(listener: Listener): () => void {
  refused.add(listener);
  return () => refused.delete(listener);
}

export interface Ask {
  method?: "GET" | "POST" | "PATCH" | "DELETE";
  body?: unknown;
  signal?: AbortSignal | undefined;
  accept?: string;
}

/** The response to a request with the key. Raises ApiError for a status other than 2xx. */
export async function send(path: string, ask: Ask = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: ask.accept ?? "application/json" };
  const key = getKey();
  if (key) headers["Authorization"] = `Bearer ${key}`;
  const init: RequestInit = { method: ask.method ?? "GET", headers, cache: "no-store" };
  if (ask.body !== undefined) {
    headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(ask.body);
  }
  if (ask.signal) init.signal = ask.signal;
  const response = await fetch(address(path), init);
  if (response.ok) return response;
  const text = await response.text();
  if (response.status === 401) for (const listener of refused) listener();
  throw new ApiError(problemOf(parsed(text), response.status), response.status);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { error: text.slice(0, 300) };
  }
}

async function json<R>(path: string, ask: Ask = {}): Promise<R> {
  return (await (await send(path, ask)).json()) as R;
}

/** A model's id in an address: slashes stay. */
const inPath = (id: string) => id.split("/").map(encodeURIComponent).join("/");

/** Every route of `/ui/api` that answers JSON. `signal` gives up on the answer. */
export const api = {
  state: (signal?: AbortSignal) => json<T.ServerState>("/ui/api/state", { signal }),
  library: (signal?: AbortSignal) => json<T.StoredFile[]>("/ui/api/library", { signal }),
  hub: (q: string, cursor: string | null, signal?: AbortSignal) =>
    json<T.HubPage>(
      `/ui/api/hub?${new URLSearchParams(cursor === null ? { q } : { q, cursor })}`,
      { signal },
    ),
  hubFiles: (repo: string, signal?: AbortSignal) =>
    json<T.HubFiles>(`/ui/api/hub/${inPath(repo)}`, { signal }),
  fit: (refs: string[], signal?: AbortSignal) =>
    json<T.Fits>("/ui/api/fit", { method: "POST", body: { refs }, signal }),
  plan: (ref: string, options: T.Options, signal?: AbortSignal) =>
    json<T.PlanFacts>("/ui/api/plan", { method: "POST", body: { ref, options }, signal }),
  downloads: (signal?: AbortSignal) => json<T.Downloads>("/ui/api/downloads", { signal }),
  download: (ref: string) => json<T.Download>("/ui/api/downloads", { method: "POST", body: { ref } }),
  changeDownload: (id: string, action: "pause" | "resume") =>
    json<T.Download>(`/ui/api/downloads/${inPath(id)}`, { method: "PATCH", body: { action } }),
  deleteDownload: (id: string) =>
    json<unknown>(`/ui/api/downloads/${inPath(id)}`, { method: "DELETE" }),
  model: (id: string, signal?: AbortSignal) =>
    json<T.ModelDetail>(`/ui/api/models/${inPath(id)}`, { signal }),
  load: (id: string, options: T.Options = {}) =>
    json<T.Accepted>(`/ui/api/models/${inPath(id)}/load`, { method: "POST", body: { options } }),
  unload: (id: string) =>
    json<T.Accepted>(`/ui/api/models/${inPath(id)}/unload`, { method: "POST", body: {} }),
  place: (id: string, options: T.Options) =>
    json<T.Accepted>(`/ui/api/models/${inPath(id)}/place`, { method: "POST", body: { options } }),
  metrics: (seconds: number, signal?: AbortSignal) =>
    json<T.Columns>(`/ui/api/metrics?seconds=${seconds}`, { signal }),
  log: (after: number, signal?: AbortSignal) =>
    json<T.Lines>(`/ui/api/log?after=${after}`, { signal }),
};
