import * as db from "./db.ts";
import type { Message } from "./records.ts";

/** A conversation with a message that has the text. */
export interface Hit {
  conversation: string;
  message: string;
  excerpt: string;
}

/** Messages of one slice, between which the page can draw. */
const SLICE = 200;
/** The most conversations that are found. */
const MOST = 50;
/** Characters of an excerpt before and after the text. */
const AROUND = 48;

/** Looks for `text` in all messages, a slice at a time, and gives what is found so far. */
export async function searchTexts(
  text: string, found: (hits: readonly Hit[]) => void, signal: AbortSignal,
): Promise<void> {
  const hits = new Map<string, Hit>();
  for (let after = ""; hits.size < MOST; ) {
    const slice = await db.messages.after(after, SLICE);
    const last = slice.at(-1);
    if (!last || signal.aborted) return;
    after = last.id;
    const before = hits.size;
    for (const message of slice) {
      const hit = hits.has(message.conversation) ? null : hitIn(message, text);
      if (hit) hits.set(message.conversation, hit);
    }
    if (hits.size > before) found([...hits.values()]);
    await idle();
  }
}

/** Where `text` is in `message`, in any case. */
export function hitIn(message: Message, text: string): Hit | null {
  const at = message.text.toLowerCase().indexOf(text.toLowerCase());
  if (at < 0) return null;
  const from = Math.max(0, at - AROUND);
  const to = at + text.length + AROUND;
  const inner = message.text.slice(from, to).replace(/\s+/g, " ").trim();
  const excerpt = `${from > 0 ? "…" : ""}${inner}${to < message.text.length ? "…" : ""}`;
  return { conversation: message.conversation, message: message.id, excerpt };
}

/** Waits until the browser has nothing better to do. */
function idle(): Promise<void> {
  return new Promise((resolve) => {
    // Safari has no idle callbacks.
    if (typeof requestIdleCallback === "function") requestIdleCallback(() => resolve());
    else setTimeout(resolve, 0);
  });
}
