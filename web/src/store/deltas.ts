import type { Timings, TokenShare, ToolCall } from "./records.ts";

/** A chunk of a streamed answer, as far as the page reads it. */
export interface Chunk {
  choices?: {
    delta?: {
      content?: string | null;
      reasoning_content?: string | null;
      tool_calls?: {
        index: number;
        id?: string;
        function?: { name?: string; arguments?: string };
      }[];
    };
    finish_reason?: string | null;
    logprobs?: { content?: TokenJson[] | null } | null;
  }[];
  timings?: Timings;
  error?: unknown;
}

interface TokenJson {
  token: string;
  logprob: number;
  bytes?: number[] | null;
  top_logprobs?: TokenJson[];
}

/** An answer as it grows. */
export interface Grown {
  text: string;
  reasoning: string;
  calls: ToolCall[];
  tokens: TokenShare[];
  finish: string;
  timings: Timings | null;
}

export const nothing = (): Grown => ({
  text: "", reasoning: "", calls: [], tokens: [], finish: "", timings: null,
});

/** Adds `chunk` to `grown`. Calls are replaced, not changed: they are shown meanwhile. */
export function grow(grown: Grown, chunk: Chunk): void {
  if (chunk.timings) grown.timings = chunk.timings;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  grown.text += choice.delta?.content ?? "";
  grown.reasoning += choice.delta?.reasoning_content ?? "";
  for (const part of choice.delta?.tool_calls ?? []) {
    const known = grown.calls[part.index] ?? { id: "", name: "", arguments: "" };
    const changed = [...grown.calls];
    changed[part.index] = {
      id: part.id ?? known.id,
      name: known.name + (part.function?.name ?? ""),
      arguments: known.arguments + (part.function?.arguments ?? ""),
    };
    grown.calls = changed;
  }
  for (const token of choice.logprobs?.content ?? [])
    grown.tokens.push({ ...share(token), top: (token.top_logprobs ?? []).map(share) });
  if (choice.finish_reason) grown.finish = choice.finish_reason;
}

function share(token: TokenJson): { bytes: number[]; logprob: number } {
  return {
    bytes: token.bytes ?? Array.from(new TextEncoder().encode(token.token)),
    logprob: token.logprob,
  };
}

/** Tokens that make whole characters together, as the page shows them. */
export interface TokenGroup {
  text: string;
  /** The most surprising token of the group. */
  logprob: number;
  tokens: TokenShare[];
}

/** `tokens` in groups whose bytes are whole characters. */
export function groups(tokens: readonly TokenShare[]): TokenGroup[] {
  const found: TokenGroup[] = [];
  let held: TokenShare[] = [];
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const close = (text: string) => {
    found.push({ text, logprob: Math.min(...held.map((t) => t.logprob)), tokens: held });
    held = [];
  };
  for (const token of tokens) {
    held.push(token);
    try {
      close(decoder.decode(Uint8Array.from(held.flatMap((each) => each.bytes))));
    } catch {
      // A character goes on in the next token; no character has more than four bytes.
      if (held.length >= 4) close(lenient(held));
    }
  }
  if (held.length) close(lenient(held));
  return found;
}

function lenient(tokens: readonly TokenShare[]): string {
  return new TextDecoder().decode(Uint8Array.from(tokens.flatMap((token) => token.bytes)));
}

/** The text of `bytes`, with a sign for those that are a part of a character. */
export const textOf = (bytes: readonly number[]): string =>
  new TextDecoder().decode(Uint8Array.from(bytes));
