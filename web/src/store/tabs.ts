/** What the tabs of this browser tell each other. */
export type News =
  /** A message was stored. */
  | { kind: "message"; id: string; conversation: string }
  | { kind: "conversation"; id: string }
  | { kind: "deleted"; id: string }
  /** Messages of a conversation were deleted. */
  | { kind: "pruned"; conversation: string }
  /** Does another tab write this answer? */
  | { kind: "who"; id: string }
  | { kind: "mine"; id: string };

/** Milliseconds that other tabs have to say that an answer is theirs. */
const ANSWER_MS = 300;

const channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("unladen");
const listeners = new Set<(news: News) => void>();
channel?.addEventListener("message", (event: MessageEvent<News>) => {
  for (const listener of listeners) listener(event.data);
});

export function tellTabs(news: News): void {
  channel?.postMessage(news);
}

export function onNews(listener: (news: News) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether another tab writes the answer `id`. */
export function isElsewhere(id: string): Promise<boolean> {
  return new Promise((resolve) => {
    const stop = onNews((news) => {
      if (news.kind === "mine" && news.id === id) end(true);
    });
    const timer = setTimeout(() => end(false), ANSWER_MS);
    const end = (found: boolean) => {
      stop();
      clearTimeout(timer);
      resolve(found);
    };
    tellTabs({ kind: "who", id });
  });
}
