import type { Message } from "./records.ts";

/**
 * The tree of a conversation. Messages know their parents alone, so nothing can contradict: cycles
 * and parents that aren't there, from a damaged import, end in a shorter list. Nothing recurses.
 */
export type Messages = ReadonlyMap<string, Message>;

/** The key of a parent in tables: "" for none, and for one that isn't there. */
export const parentKey = (messages: Messages, message: Message): string =>
  message.parent !== null && messages.has(message.parent) ? message.parent : "";

/** The messages from the first one to `leaf`; none where `leaf` isn't there. */
export function pathTo(messages: Messages, leaf: string | null): Message[] {
  const path: Message[] = [];
  const seen = new Set<string>();
  for (let id = leaf; id !== null && !seen.has(id); ) {
    const message = messages.get(id);
    if (!message) break;
    seen.add(id);
    path.push(message);
    id = message.parent;
  }
  return path.reverse();
}

/** Children by their parent's key, the oldest first. */
export function childrenOf(messages: Messages): Map<string, Message[]> {
  const found = new Map<string, Message[]>();
  for (const message of messages.values()) {
    const key = parentKey(messages, message);
    const known = found.get(key);
    if (known) known.push(message);
    else found.set(key, [message]);
  }
  for (const each of found.values()) each.sort(byAge);
  return found;
}

export function byAge(a: Message, b: Message): number {
  return a.created - b.created || (a.id < b.id ? -1 : 1);
}

/** The message itself and those that could stand in its place, the oldest first. */
export function siblings(messages: Messages, id: string): Message[] {
  const message = messages.get(id);
  if (!message) return [];
  const key = parentKey(messages, message);
  return [...messages.values()].filter((other) => parentKey(messages, other) === key).sort(byAge);
}

/**
 * The leaf below `id` that was shown last.
 *
 * `lastChild`: by parent, the child that was shown last; else the newest one counts.
 */
export function leafBelow(
  messages: Messages, id: string, lastChild: Readonly<Record<string, string>>,
): string {
  const children = childrenOf(messages);
  const seen = new Set<string>([id]);
  let leaf = id;
  for (;;) {
    const below = (children.get(leaf) ?? []).filter((child) => !seen.has(child.id));
    const next = below.find((child) => child.id === lastChild[leaf]) ?? below.at(-1);
    if (!next) return leaf;
    seen.add(next.id);
    leaf = next.id;
  }
}

/** A leaf to show where the one that was kept isn't there: below the newest first message. */
export function anyLeaf(
  messages: Messages, lastChild: Readonly<Record<string, string>>,
): string | null {
  const roots = childrenOf(messages).get("") ?? [];
  const root = roots.find((each) => each.id === lastChild[""]) ?? roots.at(-1);
  if (root) return leafBelow(messages, root.id, lastChild);
  // Only cycles are left: any message is better than none.
  const first = messages.keys().next();
  return first.done ? null : first.value;
}

/** `id` and all messages below it. */
export function subtree(messages: Messages, id: string): Set<string> {
  const children = childrenOf(messages);
  const found = new Set<string>([id]);
  const waiting = [id];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
    for (const child of children.get(next) ?? [])
      if (!found.has(child.id)) {
        found.add(child.id);
        waiting.push(child.id);
      }
  return found;
}

/** `lastChild` with the branch that ends with `leaf` as the one that was shown last. */
export function remember(
  messages: Messages, leaf: string, lastChild: Readonly<Record<string, string>>,
): Record<string, string> {
  const changed = { ...lastChild };
  for (const message of pathTo(messages, leaf)) changed[parentKey(messages, message)] = message.id;
  return changed;
}
