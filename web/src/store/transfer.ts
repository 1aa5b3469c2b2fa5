import { t } from "../texts/index.ts";
import { readList, tellStorage, useChat } from "./chat.ts";
import * as db from "./db.ts";
import { readImport, type Imported } from "./imports.ts";
import type { Conversation, Message, TokenShare } from "./records.ts";
import { withFiles } from "./request.ts";
import { textsOf } from "./answering.ts";
import { tellTabs } from "./tabs.ts";
import { note, tell } from "./toasts.ts";
import { pathTo } from "./tree.ts";

/** The file of conversations, with all branches. */
export interface Exported {
  format: "unladen-chat/1";
  conversations: Conversation[];
  messages: Message[];
  /** Texts of attachments by their hash. */
  blobs: Record<string, string>;
  probabilities: Record<string, TokenShare[]>;
}

/** `chosen` conversations with everything that belongs to them. */
async function exported(chosen: readonly Conversation[]): Promise<Exported> {
  const messages = (await Promise.all(chosen.map((each) => db.messages.of(each.id)))).flat();
  const shares: Record<string, TokenShare[]> = {};
  for (const message of messages) {
    const found = await db.probabilities.get(message.id);
    if (found.length) shares[message.id] = found;
  }
  return {
    format: "unladen-chat/1", conversations: [...chosen], messages,
    blobs: Object.fromEntries(await textsOf(messages)), probabilities: shares,
  };
}

export async function exportAll(): Promise<void> {
  await guarded(async () => {
    saveJson("unladen-chats.json", await exported(await db.conversations.all()));
  });
}

export async function exportOne(id: string): Promise<void> {
  await guarded(async () => {
    const conversation = await db.conversations.get(id);
    if (conversation)
      saveJson(`${fileName(conversation.title)}.json`, await exported([conversation]));
  });
}

/** The shown branch of a conversation as Markdown. */
export async function exportMarkdown(id: string): Promise<void> {
  await guarded(async () => {
    const open = useChat.getState().open;
    const conversation = await db.conversations.get(id);
    if (!conversation) return;
    const all = new Map((await db.messages.of(id)).map((message) => [message.id, message]));
    // This tab may show another branch than the one that was stored last.
    const leaf = open?.conversation.id === id ? open.conversation.leaf : conversation.leaf;
    const path = pathTo(all, leaf);
    const text = markdownOf(conversation, path, await textsOf(path));
    save(`${fileName(conversation.title)}.md`, "text/markdown", text);
  });
}

export function markdownOf(
  conversation: Conversation, path: readonly Message[], files: ReadonlyMap<string, string>,
): string {
  const parts = [`# ${conversation.title || t.chat.newTitle}`];
  if (conversation.system) parts.push(`## ${t.chat.system}`, conversation.system);
  for (const message of path) {
    const who = { user: t.chat.you, assistant: t.chat.answer, tool: t.chat.toolResult };
    parts.push(`## ${who[message.role]}`);
    if (message.text || message.blobs.length) parts.push(withFiles(message, files));
    for (const call of message.tool_calls)
      parts.push(`\`\`\`json\n${call.name}(${call.arguments})\n\`\`\``);
  }
  return `${parts.join("\n\n")}\n`;
}

/** Adds the conversations of `files` to those that are here. */
export async function importFiles(files: readonly File[]): Promise<void> {
  for (const file of files) {
    let made: Imported;
    try {
      made = readImport(JSON.parse(await file.text()) as unknown);
    } catch (error) {
      const { message, hint } = t.chat.badImport(file.name, (error as Error).message);
      tell({ code: "import", message, hint, param: "" });
      continue;
    }
    await guarded(async () => {
      for (const [hash, text] of Object.entries(made.blobs))
        await db.blobs.put(hash, new Blob([text], { type: "text/plain" }));
      for (const conversation of made.conversations)
        await db.putTogether(
          conversation, made.messages.filter((each) => each.conversation === conversation.id),
        );
      for (const [id, tokens] of Object.entries(made.probabilities))
        await db.probabilities.put(id, tokens);
      await readList();
      for (const { id } of made.conversations) tellTabs({ kind: "conversation", id });
      note(t.chat.imported(made.conversations.length));
    });
  }
}

async function guarded(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    tellStorage(error);
  }
}

const fileName = (title: string): string =>
  title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 50) || "chat";

function saveJson(name: string, value: unknown): void {
  save(name, "application/json", JSON.stringify(value, null, 1));
}

function save(name: string, type: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads the address after this function has ended.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
