import {
  newConversation, newId, newMessage, type Conversation, type Message, type TokenShare,
  type ToolCall,
} from "./records.ts";
import { titleOf } from "./titles.ts";
import { anyLeaf, remember } from "./tree.ts";

/** Conversations of a file with new ids, so that nothing that is here is overwritten. */
export interface Imported {
  conversations: Conversation[];
  messages: Message[];
  blobs: Record<string, string>;
  probabilities: Record<string, TokenShare[]>;
}

type Json = Record<string, unknown>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const objects = (value: unknown): Json[] => (Array.isArray(value) ? value.filter(isObject) : []);
const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** A message as other programs keep it, before it has its new id. */
interface Loose {
  id: string;
  parent: string | null;
  role: string;
  text: string;
  created: number;
  more?: Partial<Message>;
}

/**
 * The conversations in `given`: this page's own export, llama.cpp's, Open WebUI's, or lists of
 * messages with role and content. Raises an Error where it is none of these.
 */
export function readImport(given: unknown): Imported {
  const made: Imported = { conversations: [], messages: [], blobs: {}, probabilities: {} };
  if (isObject(given) && given["format"] === "unladen-chat/1") readOwn(given, made);
  else for (const each of listOf(given)) readForeign(each, made);
  if (made.conversations.length === 0) throw new Error("no conversation");
  return made;
}

/** The conversations of a file: it is one, a list of them, or a list of messages. */
function listOf(given: unknown): Json[] {
  if (Array.isArray(given))
    return objects(given).some((each) => "role" in each) ? [{ messages: given }] : objects(given);
  if (!isObject(given)) return [];
  if (Array.isArray(given["conversations"])) return objects(given["conversations"]);
  return [given];
}

function readForeign(given: Json, made: Imported): void {
  const chat = isObject(given["chat"]) ? given["chat"] : given;
  const history = isObject(chat["history"]) ? chat["history"] : null;
  if (isObject(given["conv"])) readLlama(given["conv"], objects(given["messages"]), made);
  else if (history && isObject(history["messages"]))
    readWebui(text(chat["title"]) || text(given["title"]), history, made);
  else if (Array.isArray(chat["messages"])) readPlain(text(given["title"]), chat, made);
}

/** llama.cpp's page: a root message, then messages with their parent's id. */
function readLlama(conv: Json, messages: readonly Json[], made: Imported): void {
  const isRoot = (each: Json) => each["type"] === "root";
  const roots = new Set(messages.filter(isRoot).map((each) => String(each["id"])));
  const loose = messages.filter((each) => !isRoot(each)).map((each): Loose => {
    const parent = each["parent"] === null ? null : String(each["parent"] ?? "");
    return {
      id: String(each["id"]), parent: parent && !roots.has(parent) ? parent : null,
      role: text(each["role"]), text: contentOf(each["content"]), created: timeOf(each["timestamp"]),
      more: {
        reasoning: text(each["reasoningContent"]) || text(each["thinking"]),
        tool_calls: callsOf(each["toolCalls"]), tool_call_id: text(each["toolCallId"]),
        model: text(each["model"]),
      },
    };
  });
  build(text(conv["name"]), String(conv["currNode"] ?? ""), loose, made);
}

/** Open WebUI: messages by id, with their parent's id. */
function readWebui(title: string, history: Json, made: Imported): void {
  const messages = Object.entries(history["messages"] as Json)
    .flatMap(([id, each]) => (isObject(each) ? [{ ...each, id }] : [])) as Json[];
  const loose = messages.map((each): Loose => ({
    id: String(each["id"]), parent: text(each["parentId"]) || null, role: text(each["role"]),
    text: contentOf(each["content"]), created: timeOf(each["timestamp"]),
    more: { model: text(each["model"]) },
  }));
  build(title, text(history["currentId"]), loose, made);
}

/** A list of messages, each below the one before it. */
function readPlain(title: string, given: Json, made: Imported): void {
  let parent: string | null = null;
  const loose = objects(given["messages"]).map((each, i): Loose => {
    const id = String(i);
    const message: Loose = {
      id, parent, role: text(each["role"]), text: contentOf(each["content"]), created: i,
      more: {
        reasoning: text(each["reasoning_content"]), tool_calls: callsOf(each["tool_calls"]),
        tool_call_id: text(each["tool_call_id"]),
      },
    };
    parent = id;
    return message;
  });
  build(title, parent ?? "", loose, made);
}

/** Texts of a message's parts; other parts can't be shown. */
function contentOf(content: unknown): string {
  if (typeof content === "string") return content;
  return objects(content).map((part) => text(part["text"])).filter(Boolean).join("\n\n");
}

/** Milliseconds since 1970 of a time in seconds or milliseconds; 0 for none. */
function timeOf(value: unknown): number {
  const given = Number(value);
  if (!Number.isFinite(given) || given <= 0) return 0;
  return given < 1e11 ? given * 1000 : given;
}

function callsOf(given: unknown): ToolCall[] {
  let calls = given;
  if (typeof given === "string") {
    try {
      calls = JSON.parse(given);
    } catch {
      return [];
    }
  }
  return objects(calls).flatMap((call) => {
    const made = isObject(call["function"]) ? call["function"] : call;
    const written = made["arguments"];
    return made["name"] ? [{
      id: text(call["id"]) || newId(), name: text(made["name"]),
      arguments: typeof written === "string" ? written : JSON.stringify(written ?? {}),
    }] : [];
  });
}

/** Adds a conversation of `loose` messages. System messages become its system prompt. */
function build(title: string, leaf: string, loose: readonly Loose[], made: Imported): void {
  const roles = new Set(["user", "assistant", "tool"]);
  const kept = loose.filter((each) => roles.has(each.role));
  if (kept.length === 0) return;
  const byId = new Map(loose.map((each) => [each.id, each]));
  const ids = new Map(kept.map((each) => [each.id, newId()]));
  /** The nearest message above that is kept. */
  const above = (id: string | null): string | null => {
    const seen = new Set<string>();
    for (let at = id; at !== null && !seen.has(at); at = byId.get(at)?.parent ?? null) {
      seen.add(at);
      if (ids.has(at)) return ids.get(at) ?? null;
    }
    return null;
  };
  const now = Date.now();
  const conversation = newConversation(newId(), now);
  const messages = kept.map((each, i) => newMessage({
    ...each.more, id: ids.get(each.id) ?? newId(), conversation: conversation.id,
    parent: above(each.parent), role: each.role as Message["role"], text: each.text,
    created: each.created || i,
  }));
  const first = messages.find((message) => message.role === "user");
  conversation.title = title || titleOf(first?.text ?? "");
  conversation.system = loose.filter((each) => each.role === "system").map((each) => each.text)
    .join("\n\n");
  conversation.created = Math.min(...messages.map((each) => each.created)) || now;
  conversation.updated = Math.max(...messages.map((each) => each.created)) || now;
  settle(conversation, ids.get(leaf) ?? null, messages);
  made.conversations.push(conversation);
  made.messages.push(...messages);
}

/** Sets the branch that `conversation` shows. */
function settle(
  conversation: Conversation, leaf: string | null, messages: readonly Message[],
): void {
  const all = new Map(messages.map((message) => [message.id, message]));
  const found = leaf !== null && all.has(leaf) ? leaf : anyLeaf(all, {});
  conversation.leaf = found;
  conversation.last_child = found === null ? {} : remember(all, found, {});
}

/** This page's own file. Values of other types than expected become the defaults. */
function readOwn(given: Json, made: Imported): void {
  const conversations = objects(given["conversations"]);
  const messages = objects(given["messages"]);
  const ids = new Map([...conversations, ...messages].map((each) => [text(each["id"]), newId()]));
  const mine = messages.flatMap((each) => {
    const conversation = ids.get(text(each["conversation"]));
    if (conversation === undefined || !["user", "assistant", "tool"].includes(text(each["role"])))
      return [];
    const parent = ids.get(text(each["parent"])) ?? null;
    const blank = newMessage({ conversation, parent, role: each["role"] as Message["role"] });
    const message = { ...sameTypes(blank, each), conversation, parent };
    message.id = ids.get(text(each["id"])) ?? newId();
    if (message.status === "streaming") message.status = "stopped";
    return [message];
  });
  for (const each of conversations) {
    const id = ids.get(text(each["id"])) ?? newId();
    const conversation = { ...sameTypes(newConversation(id), each), id };
    conversation.model = text(each["model"]) || null;
    settle(
      conversation, ids.get(text(each["leaf"])) ?? null,
      mine.filter((message) => message.conversation === id),
    );
    made.conversations.push(conversation);
  }
  made.messages.push(...mine);
  for (const [hash, data] of Object.entries(isObject(given["blobs"]) ? given["blobs"] : {}))
    if (typeof data === "string") made.blobs[hash] = data;
  const shares = isObject(given["probabilities"]) ? given["probabilities"] : {};
  for (const [id, tokens] of Object.entries(shares)) {
    const known = ids.get(id);
    if (known && Array.isArray(tokens)) made.probabilities[known] = tokens as TokenShare[];
  }
}

/** `blank` with the values of `given` that are of the same type. */
function sameTypes<R extends object>(blank: R, given: Json): R {
  const made = { ...blank };
  for (const [name, value] of Object.entries(blank)) {
    const other = given[name];
    const isSame = value === null
      ? other === null || isObject(other)
      : typeof other === typeof value && Array.isArray(other) === Array.isArray(value);
    if (isSame && other !== undefined) Object.assign(made, { [name]: other });
  }
  return made;
}
