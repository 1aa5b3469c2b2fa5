import type { Problem } from "../api/types.ts";

/** What the browser keeps. Times are milliseconds since 1970. */

/** Settings of sampling; a missing one is the server's. */
export interface Sampler {
  temperature?: number;
  top_p?: number;
  top_k?: number;
  min_p?: number;
  repeat_penalty?: number;
  presence_penalty?: number;
  frequency_penalty?: number;
  max_tokens?: number;
  seed?: number;
  stop?: string[];
}

export interface Tool {
  name: string;
  description: string;
  /** The JSON schema of the arguments, as text. */
  parameters: string;
}

export type Thinking = "auto" | "none" | "low" | "medium" | "high";

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  /** The message that the shown branch ends with. */
  leaf: string | null;
  /** By parent ("" for none): the child that was shown last. */
  last_child: Record<string, string>;
  /** null: the model of new conversations. */
  model: string | null;
  system: string;
  sampler: Sampler;
  tools: Tool[];
  /** The JSON schema of answers, as text; "" for none. */
  schema: string;
  thinking: Thinking;
  /** Whether answers are asked for with the probabilities of their tokens. */
  probabilities: boolean;
}

export interface ToolCall {
  id: string;
  name: string;
  /** JSON as the model wrote it, complete or not. */
  arguments: string;
}

export interface Attachment {
  hash: string;
  name: string;
  bytes: number;
}

export interface Timings {
  prompt_n?: number;
  cache_n?: number;
  prompt_ms?: number;
  prompt_per_second?: number;
  predicted_n?: number;
  predicted_ms?: number;
  predicted_per_second?: number;
}

export interface Message {
  id: string;
  conversation: string;
  parent: string | null;
  created: number;
  role: "user" | "assistant" | "tool";
  text: string;
  reasoning: string;
  /** Seconds that the reasoning took. */
  reasoning_s: number;
  tool_calls: ToolCall[];
  /** For a tool's result: the call that it answers. */
  tool_call_id: string;
  blobs: Attachment[];
  status: "streaming" | "done" | "stopped" | "failed";
  error: Problem | null;
  /** Why the answer ended: "stop", "length", "tool_calls"; "" while it hasn't. */
  finish: string;
  timings: Timings | null;
  model: string;
}

/** A token, as it may be written: bytes that are a part of a character, too. */
export interface TokenShare {
  bytes: number[];
  logprob: number;
  top: { bytes: number[]; logprob: number }[];
}

export interface Draft {
  /** "" for the conversation that isn't begun yet. */
  conversation: string;
  text: string;
  blobs: Attachment[];
}

/** An id that no other record has. Works without a secure context, unlike randomUUID. */
export function newId(): string {
  const random = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function newConversation(id: string, now = Date.now()): Conversation {
  return {
    id, title: "", created: now, updated: now, leaf: null, last_child: {}, model: null, system: "",
    sampler: {}, tools: [], schema: "", thinking: "auto", probabilities: false,
  };
}

export function newMessage(
  given: Pick<Message, "conversation" | "parent" | "role"> & Partial<Message>,
): Message {
  return {
    id: newId(), created: Date.now(), text: "", reasoning: "", reasoning_s: 0, tool_calls: [],
    tool_call_id: "", blobs: [], status: "done", error: null, finish: "", timings: null, model: "",
    ...given,
  };
}
