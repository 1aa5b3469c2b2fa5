import { openDB, type DBSchema, type IDBPDatabase } from "idb";
import type { Conversation, Draft, Message, TokenShare } from "./records.ts";

interface Schema extends DBSchema {
  conversations: { key: string; value: Conversation };
  messages: { key: string; value: Message; indexes: { conversation: string } };
  probabilities: { key: string; value: { message: string; packed: string } };
  blobs: { key: string; value: { hash: string; data: Blob } };
  drafts: { key: string; value: Draft };
  settings: { key: string; value: { name: string; value: unknown } };
}

const NAME = "unladen";
const VERSION = 1;

let opened: Promise<IDBPDatabase<Schema>> | null = null;

function database(): Promise<IDBPDatabase<Schema>> {
  opened ??= openDB<Schema>(NAME, VERSION, {
    upgrade(db) {
      db.createObjectStore("conversations", { keyPath: "id" });
      db.createObjectStore("messages", { keyPath: "id" }).createIndex(
        "conversation", "conversation",
      );
      db.createObjectStore("probabilities", { keyPath: "message" });
      db.createObjectStore("blobs", { keyPath: "hash" });
      db.createObjectStore("drafts", { keyPath: "conversation" });
      db.createObjectStore("settings", { keyPath: "name" });
    },
    terminated() {
      opened = null;
    },
  });
  return opened;
}

export const conversations = {
  all: async () => (await database()).getAll("conversations"),
  get: async (id: string) => (await database()).get("conversations", id),
  put: async (value: Conversation) => {
    await (await database()).put("conversations", value);
  },
  /** Changes what is stored, so that two tabs don't undo each other's changes. */
  change: async (id: string, changes: Partial<Conversation>): Promise<Conversation | undefined> => {
    const tx = (await database()).transaction("conversations", "readwrite");
    const known = await tx.store.get(id);
    const changed = known && { ...known, ...changes };
    if (changed) await tx.store.put(changed);
    await tx.done;
    return changed;
  },
};

export const messages = {
  get: async (id: string) => (await database()).get("messages", id),
  of: async (conversation: string) =>
    (await database()).getAllFromIndex("messages", "conversation", conversation),
  put: async (...values: Message[]) => {
    const tx = (await database()).transaction("messages", "readwrite");
    for (const value of values) void tx.store.put(value);
    await tx.done;
  },
  delete: async (ids: Iterable<string>) => {
    const tx = (await database()).transaction(["messages", "probabilities"], "readwrite");
    for (const id of ids) {
      void tx.objectStore("messages").delete(id);
      void tx.objectStore("probabilities").delete(id);
    }
    await tx.done;
  },
  /** At most `n` messages with ids after `after`, in the order of their ids. */
  after: async (after: string, n: number) =>
    (await database()).getAll("messages", IDBKeyRange.lowerBound(after, true), n),
};

/** Stores a message and what it changes in its conversation, both or neither. */
export async function putTogether(
  conversation: Conversation, added: readonly Message[], clearDraft: string | null = null,
): Promise<void> {
  const tx = (await database()).transaction(["conversations", "messages", "drafts"], "readwrite");
  void tx.objectStore("conversations").put(conversation);
  for (const message of added) void tx.objectStore("messages").put(message);
  if (clearDraft !== null) void tx.objectStore("drafts").delete(clearDraft);
  await tx.done;
}

export async function deleteConversation(id: string): Promise<void> {
  const ids = await (await database()).getAllKeysFromIndex("messages", "conversation", id);
  const tx = (await database()).transaction(
    ["conversations", "messages", "probabilities", "drafts"], "readwrite",
  );
  void tx.objectStore("conversations").delete(id);
  void tx.objectStore("drafts").delete(id);
  for (const message of ids) {
    void tx.objectStore("messages").delete(message);
    void tx.objectStore("probabilities").delete(message);
  }
  await tx.done;
}

export const probabilities = {
  get: async (message: string): Promise<TokenShare[]> => {
    const found = await (await database()).get("probabilities", message);
    return found ? (JSON.parse(found.packed) as TokenShare[]) : [];
  },
  put: async (message: string, tokens: readonly TokenShare[]) => {
    await (await database()).put("probabilities", { message, packed: JSON.stringify(tokens) });
  },
};

export const blobs = {
  get: async (hash: string) => (await (await database()).get("blobs", hash))?.data,
  put: async (hash: string, data: Blob) => {
    await (await database()).put("blobs", { hash, data });
  },
};

export const drafts = {
  get: async (conversation: string) => (await database()).get("drafts", conversation),
  put: async (draft: Draft) => {
    const db = await database();
    if (draft.text || draft.blobs.length) await db.put("drafts", draft);
    else await db.delete("drafts", draft.conversation);
  },
};

export const settings = {
  get: async (name: string) => (await (await database()).get("settings", name))?.value,
  put: async (name: string, value: unknown) => {
    await (await database()).put("settings", { name, value });
  },
};

/** Whether `error` says that the browser has no space left. */
export function isQuota(error: unknown): boolean {
  return error instanceof DOMException && error.name === "QuotaExceededError";
}
