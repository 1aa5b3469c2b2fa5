import { useSyncExternalStore } from "react";

/** What the address shows: `#/chat`, `#/chat/ID`, `#/models`, `#/models/ID`, `#/watch`. */
export interface Route {
  view: "chat" | "models" | "watch";
  /** The conversation's or the model's id; "" for none. */
  id: string;
}

export function routeOf(hash: string): Route {
  const [view = "", ...rest] = hash.replace(/^#\/?/, "").split("/");
  const id = decoded(rest.join("/"));
  return view === "models" || view === "watch" ? { view, id } : { view: "chat", id };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function hrefOf(route: Route): string {
  return route.id ? `#/${route.view}/${encodeURIComponent(route.id)}` : `#/${route.view}`;
}

/** Goes to `route`; `replace`: without an entry in the history. */
export function go(route: Route, { replace = false } = {}): void {
  if (replace) {
    history.replaceState(null, "", hrefOf(route));
    dispatchEvent(new HashChangeEvent("hashchange"));
  } else location.hash = hrefOf(route);
}

function subscribe(listener: () => void): () => void {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
}

export function useRoute(): Route {
  return routeOf(useSyncExternalStore(subscribe, () => location.hash));
}
