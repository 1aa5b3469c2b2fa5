import { create } from "zustand";
import { t } from "../texts/index.ts";
import * as db from "./db.ts";
import { newConversation, newId, type Conversation, type Message } from "./records.ts";
import { isElsewhere, onNews, tellTabs, type News } from "./tabs.ts";
import { titleOf } from "./titles.ts";
import { tell } from "./toasts.ts";
import { anyLeaf, leafBelow, remember, subtree, type Messages } from "./tree.ts";

/** The conversation that is shown. `conversation.id` is "" for one that isn't begun yet. */
export interface Open {
  conversation: Conversation;
  messages: Messages;
}

interface Chat {
  /** All conversations, the newest first; null until they are read. */
  list: readonly Conversation[] | null;
  open: Open | null;
  /** The conversation that was asked for last, while it is read. */
  wanted: string;
  /** The address names a conversation that isn't there. */
  isMissing: boolean;
  /** Answers that another tab writes. */
  elsewhere: ReadonlySet<string>;
}

export const useChat = create<Chat>(() => ({
  list: null, open: null, wanted: "", isMissing: false, elsewhere: new Set(),
}));

/** The setting under which the conversation that isn't begun yet is kept. */
const FRESH = "fresh";

/** Says that something couldn't be stored, and why. */
export function tellStorage(error: unknown): void {
  const isFull = db.isQuota(error);
  const message = isFull ? t.chat.storage.full : t.chat.storage.failed(String(error));
  tell({ code: isFull ? "quota" : "storage", message, hint: t.chat.storage.hint, param: "" });
}

const newestFirst = (a: Conversation, b: Conversation) => b.updated - a.updated;

export async function readList(): Promise<void> {
  try {
    useChat.setState({ list: (await db.conversations.all()).sort(newestFirst) });
  } catch (error) {
    useChat.setState({ list: [] });
    tellStorage(error);
  }
}

/** Shows the conversation `id`; "": one that isn't begun yet. */
export async function openConversation(id: string): Promise<void> {
  useChat.setState({ wanted: id });
  if (useChat.getState().open?.conversation.id === id) return;
  const isLate = () => useChat.getState().wanted !== id;
  try {
    if (id === "") {
      const kept = (await db.settings.get(FRESH)) as Partial<Conversation> | undefined;
      if (isLate()) return;
      const conversation = { ...newConversation(""), ...kept, id: "" };
      useChat.setState({ open: { conversation, messages: new Map() }, isMissing: false });
      return;
    }
    const [conversation, all] = await Promise.all([db.conversations.get(id), db.messages.of(id)]);
    if (isLate()) return;
    if (!conversation) {
      useChat.setState({ open: null, isMissing: true });
      return;
    }
    const messages = new Map(all.map((message) => [message.id, message]));
    if (!conversation.leaf || !messages.has(conversation.leaf))
      conversation.leaf = anyLeaf(messages, conversation.last_child);
    useChat.setState({ open: { conversation, messages }, isMissing: false });
    for (const message of all)
      if (message.status === "streaming" && !owned.has(message.id)) void findWriter(message);
  } catch (error) {
    tellStorage(error);
  }
}

/** The answers that this tab writes. */
export const owned = new Set<string>();

/** Milliseconds between two looks whether the tab that writes an answer is still there. */
const LOOK_MS = 3000;

function setElsewhere(id: string, isThere: boolean): void {
  const { elsewhere } = useChat.getState();
  if (elsewhere.has(id) === isThere) return;
  const changed = new Set(elsewhere);
  if (isThere) changed.add(id);
  else changed.delete(id);
  useChat.setState({ elsewhere: changed });
}

/** An answer without an end: another tab writes it, or it was interrupted. */
async function findWriter(message: Message): Promise<void> {
  while (await isElsewhere(message.id)) {
    setElsewhere(message.id, true);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  setElsewhere(message.id, false);
  const now = await db.messages.get(message.id);
  if (now?.status !== "streaming" || owned.has(message.id)) return;
  const { message: text, hint } = t.chat.interrupted;
  await keep({
    ...now, status: "failed", error: { code: "interrupted", message: text, hint, param: "" },
  });
}

/** Stores `message` and shows it where its conversation is open. Raises the storage's errors. */
export async function keep(message: Message): Promise<void> {
  await db.messages.put(message);
  show(message);
  tellTabs({ kind: "message", id: message.id, conversation: message.conversation });
}

/** Shows `message` where its conversation is open. */
export function show(...added: readonly Message[]): void {
  useChat.setState(({ open }) => {
    const mine = added.filter((message) => message.conversation === open?.conversation.id);
    if (!open || mine.length === 0) return {};
    const messages = new Map(open.messages);
    for (const message of mine) messages.set(message.id, message);
    return { open: { ...open, messages } };
  });
}

/** Changes settings of the open conversation, and stores them. */
export async function changeOpen(changes: Partial<Conversation>): Promise<void> {
  const open = useChat.getState().open;
  if (!open) return;
  await changeConversation(open.conversation.id, changes);
}

/** Changes the conversation `id`, and stores it. "": the one that isn't begun yet. */
export async function changeConversation(
  id: string, changes: Partial<Conversation>,
): Promise<void> {
  useChat.setState(({ open, list }) => ({
    open: open?.conversation.id === id
      ? { ...open, conversation: { ...open.conversation, ...changes } }
      : open,
    list: list?.map((each) => (each.id === id ? { ...each, ...changes } : each)) ?? null,
  }));
  try {
    if (id === "") await db.settings.put(FRESH, useChat.getState().open?.conversation);
    else {
      await db.conversations.change(id, changes);
      tellTabs({ kind: "conversation", id });
    }
  } catch (error) {
    tellStorage(error);
  }
}

/**
 * Stores `added`, whose parents are set, and shows the branch that ends with the last one.
 *
 * A conversation that isn't begun yet begins with them. The draft goes in the same step, so a text
 * is always in the box or in the conversation. Raises the storage's errors; then nothing changed.
 */
export async function append(
  open: Open, added: readonly Message[], { clearDraft = false } = {},
): Promise<Open> {
  const now = Date.now();
  const isNew = open.conversation.id === "";
  const id = isNew ? newId() : open.conversation.id;
  const placed = added.map((message) => ({ ...message, conversation: id }));
  const messages = new Map(open.messages);
  for (const message of placed) messages.set(message.id, message);
  const leaf = placed.at(-1)?.id ?? open.conversation.leaf;
  const first = placed[0];
  const conversation: Conversation = {
    ...open.conversation, id, leaf, updated: now,
    title: open.conversation.title || titleOf(first?.text || first?.blobs[0]?.name || ""),
    created: isNew ? now : open.conversation.created,
    last_child: leaf ? remember(messages, leaf, open.conversation.last_child) : {},
  };
  await db.putTogether(conversation, placed, clearDraft ? open.conversation.id : null);
  if (isNew) await db.settings.put(FRESH, undefined);
  const changed = { conversation, messages };
  useChat.setState((state) => ({
    open: state.open?.conversation.id === open.conversation.id ? changed : state.open,
    list: [conversation, ...(state.list ?? []).filter((each) => each.id !== id)],
  }));
  for (const message of placed) tellTabs({ kind: "message", id: message.id, conversation: id });
  tellTabs({ kind: "conversation", id });
  return changed;
}

/** Shows the branch with the message `id`. */
export async function showBranch(id: string): Promise<void> {
  const open = useChat.getState().open;
  if (!open) return;
  const leaf = leafBelow(open.messages, id, open.conversation.last_child);
  const last_child = remember(open.messages, leaf, open.conversation.last_child);
  await changeOpen({ leaf, last_child });
}

/** Deletes the message `id` and everything below it. */
export async function prune(id: string): Promise<void> {
  const open = useChat.getState().open;
  const parent = open?.messages.get(id)?.parent ?? null;
  if (!open) return;
  const gone = subtree(open.messages, id);
  try {
    await db.messages.delete(gone);
  } catch (error) {
    tellStorage(error);
    return;
  }
  const messages = new Map([...open.messages].filter(([each]) => !gone.has(each)));
  const leaf = parent && messages.has(parent)
    ? leafBelow(messages, parent, open.conversation.last_child)
    : anyLeaf(messages, open.conversation.last_child);
  useChat.setState({ open: { ...open, messages } });
  await changeOpen({ leaf });
  tellTabs({ kind: "pruned", conversation: open.conversation.id });
}

export async function deleteConversation(id: string): Promise<void> {
  try {
    await db.deleteConversation(id);
  } catch (error) {
    tellStorage(error);
    return;
  }
  forget(id);
  tellTabs({ kind: "deleted", id });
}

function forget(id: string): void {
  useChat.setState(({ list, open }) => ({
    list: list?.filter((each) => each.id !== id) ?? null,
    open: open?.conversation.id === id ? null : open,
    isMissing: open?.conversation.id === id,
  }));
}

async function hear(news: News): Promise<void> {
  const open = useChat.getState().open;
  if (news.kind === "deleted") forget(news.id);
  if (news.kind === "who" && owned.has(news.id)) tellTabs({ kind: "mine", id: news.id });
  if (news.kind === "conversation") await hearConversation(news.id);
  if (news.kind === "message" && open?.conversation.id === news.conversation)
    await hearMessage(news.id);
  if (news.kind === "pruned" && open?.conversation.id === news.conversation) {
    useChat.setState({ open: null });
    await openConversation(news.conversation);
  }
}

/** Another tab changed a conversation. Which branch is shown is each tab's own affair. */
async function hearConversation(id: string): Promise<void> {
  const changed = await db.conversations.get(id);
  if (!changed) return;
  useChat.setState(({ open, list }) => ({
    list: [changed, ...(list ?? []).filter((each) => each.id !== id)].sort(newestFirst),
    open: open?.conversation.id === id
      ? { ...open, conversation: { ...changed, leaf: open.conversation.leaf } }
      : open,
  }));
}

/** Another tab stored a message: below the branch that is shown here, it is shown, too. */
async function hearMessage(id: string): Promise<void> {
  const message = await db.messages.get(id);
  if (!message) return;
  const isNew = !useChat.getState().elsewhere.has(id);
  setElsewhere(id, message.status === "streaming");
  show(message);
  if (isNew && message.status === "streaming") void findWriter(message);
  const open = useChat.getState().open;
  if (open && message.parent === open.conversation.leaf)
    useChat.setState({ open: { ...open, conversation: { ...open.conversation, leaf: id } } });
}

onNews((news) => void hear(news));
