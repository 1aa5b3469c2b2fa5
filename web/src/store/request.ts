import type { Conversation, Message, Sampler } from "./records.ts";

/** How many alternatives of each token are asked for. */
const N_TOP = 5;

/** A message as `/v1/chat/completions` takes it. */
export interface Sent {
  role: string;
  content: string | null;
  reasoning_content?: string;
  tool_calls?: { id: string; type: "function"; function: { name: string; arguments: string } }[];
  tool_call_id?: string;
}

type Setting = "schema" | "tools" | "name";

/** What the server takes as a tool's name. */
const TOOL_NAME = /^[\w.-]{1,64}$/;

export const isToolName = (name: string): boolean => TOOL_NAME.test(name);

/** What is wrong with a setting of a conversation, before anything is sent. */
export class SettingError extends Error {
  readonly setting: Setting;

  constructor(setting: Setting, message: string) {
    super(message);
    this.setting = setting;
  }
}

export interface Asking {
  conversation: Conversation;
  model: string;
  /** The messages that are shown, the first one first. */
  path: readonly Message[];
  /** Texts of attachments by their hash. */
  files: ReadonlyMap<string, string>;
  /** The last message of `path` is the beginning of the answer. */
  continues: boolean;
}

/** The body of the request. What is shown is exactly what is sent. */
export function requestBody(asking: Asking): Record<string, unknown> {
  const { conversation, model, path, files, continues } = asking;
  const messages = path.map((message) => sent(message, files));
  if (conversation.system.trim())
    messages.unshift({ role: "system", content: conversation.system });
  const body: Record<string, unknown> = {
    model, messages, stream: true, stream_options: { include_usage: true },
    ...samplerBody(conversation.sampler),
  };
  if (continues) body["continue_final_message"] = true;
  if (conversation.tools.length) body["tools"] = conversation.tools.map(toolBody);
  if (conversation.schema.trim())
    body["response_format"] = {
      type: "json_schema",
      json_schema: { name: "answer", schema: parsed("schema", conversation.schema) },
    };
  if (conversation.thinking !== "auto") body["reasoning_effort"] = conversation.thinking;
  if (conversation.probabilities) Object.assign(body, { logprobs: true, top_logprobs: N_TOP });
  return body;
}

function samplerBody(sampler: Sampler): Record<string, unknown> {
  const given = Object.entries(sampler).filter(
    ([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0),
  );
  return Object.fromEntries(given);
}

function toolBody(tool: Conversation["tools"][number]): unknown {
  if (!isToolName(tool.name)) throw new SettingError("name", tool.name);
  const parameters = tool.parameters.trim()
    ? parsed("tools", tool.parameters)
    : { type: "object", properties: {} };
  return {
    type: "function",
    function: { name: tool.name, description: tool.description, parameters },
  };
}

function parsed(setting: "schema" | "tools", text: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new SettingError(setting, (error as Error).message);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new SettingError(setting, "{...}");
  return value;
}

/** What is wrong with the JSON object in `text`; "" for nothing. */
export function wrongJson(text: string): string {
  if (!text.trim()) return "";
  try {
    parsed("schema", text);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

function sent(message: Message, files: ReadonlyMap<string, string>): Sent {
  if (message.role === "tool")
    return { role: "tool", content: message.text, tool_call_id: message.tool_call_id };
  if (message.role === "user") return { role: "user", content: withFiles(message, files) };
  const calls = message.tool_calls.map((call) => ({
    id: call.id, type: "function" as const,
    function: { name: call.name, arguments: call.arguments || "{}" },
  }));
  return {
    role: "assistant", content: message.text,
    ...(message.reasoning ? { reasoning_content: message.reasoning } : {}),
    ...(calls.length ? { tool_calls: calls } : {}),
  };
}

/** The message's text behind its files, each in a fence that its own text can't close. */
export function withFiles(message: Message, files: ReadonlyMap<string, string>): string {
  const parts = message.blobs.map(({ hash, name }) => {
    const text = files.get(hash) ?? "";
    const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
    const fence = "`".repeat(longest + 1);
    return `${name}\n${fence}\n${text.replace(/\n$/, "")}\n${fence}`;
  });
  return [...parts, ...(message.text ? [message.text] : [])].join("\n\n");
}
