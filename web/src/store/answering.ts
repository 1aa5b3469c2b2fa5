import { create } from "zustand";
import { send } from "../api/client.ts";
import { ApiError, asProblem, problemOf } from "../api/problem.ts";
import { sseEvents } from "../api/sse.ts";
import type { Problem } from "../api/types.ts";
import { t } from "../texts/index.ts";
import { append, keep, owned, tellStorage, useChat, type Open } from "./chat.ts";
import * as db from "./db.ts";
import { keepBlocks } from "../chat/markdown/parsed.ts";
import type { Chunk } from "./deltas.ts";
import { LiveAnswer } from "./live.ts";
import { tellMeasured } from "./measured.ts";
import { newMessage, type Attachment, type Message } from "./records.ts";
import { requestBody, SettingError } from "./request.ts";
import { findModel, useServer } from "./server.ts";
import { tellTabs } from "./tabs.ts";
import { tell } from "./toasts.ts";
import { pathTo } from "./tree.ts";

/** A running answer of this tab. It goes on when another conversation is shown. */
export interface Stream {
  message: Message;
  model: string;
  live: LiveAnswer;
  stop: () => void;
  /** Nothing has come yet: the model is loaded, or the request waits, or the prompt is read. */
  waits: boolean;
}

/** The answers that this tab writes, by the message's id, and what was told about the last end. */
export const useStreams = create<{ streams: ReadonlyMap<string, Stream>; ended: string }>(() => ({
  streams: new Map(), ended: "",
}));

/** Milliseconds between two writes of a running answer into the storage. */
const WRITE_MS = 500;

/** Why an answer can't be asked for; the text stays in the box. */
export function refusal(open: Open, model: string, path: readonly Message[]): Problem | null {
  if (!model) return { code: "no_model", param: "", ...t.chat.noModel };
  try {
    requestBody({ conversation: open.conversation, model, path, files: new Map(), continues: false });
    return null;
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
    return {
      code: "bad_request", message: t.chat.wrongSetting[error.setting](error.message),
      hint: "", param: error.setting,
    };
  }
}

/** Sends `text` below the message `parent`. False where it stays in the box. */
export async function ask(
  model: string, text: string, blobs: readonly Attachment[], parent: string | null,
): Promise<string | null> {
  const open = useChat.getState().open;
  if (!open) return null;
  const question = newMessage({
    conversation: open.conversation.id, parent, role: "user", text, blobs: [...blobs],
  });
  return begin(open, model, [question], { clearDraft: true });
}

/** Asks for another answer beside `message`. */
export async function again(message: Message, model: string): Promise<void> {
  const open = useChat.getState().open;
  if (open) await begin(open, model, [], { parent: message.parent });
}

/** Sends `results` of the tools that the answer above called. */
export async function sendResults(results: readonly Message[], model: string): Promise<void> {
  const open = useChat.getState().open;
  if (open) await begin(open, model, results);
}

/** A question in place of `message`, as a branch of its own. */
export async function askInstead(message: Message, text: string, model: string): Promise<void> {
  const open = useChat.getState().open;
  if (!open) return;
  const question = newMessage({
    conversation: open.conversation.id, parent: message.parent, role: "user", text,
    blobs: message.blobs,
  });
  await begin(open, model, [question]);
}

/** Stores `added` and an empty answer below them, and begins to write it. */
async function begin(
  open: Open, model: string, added: readonly Message[],
  { parent = null, clearDraft = false }: { parent?: string | null; clearDraft?: boolean } = {},
): Promise<string | null> {
  const above = added.at(-1)?.id ?? parent;
  const messages = new Map(open.messages);
  for (const message of added) messages.set(message.id, message);
  const problem = refusal(open, model, pathTo(messages, above));
  if (problem) {
    tell(problem);
    return null;
  }
  const answer = newMessage({
    conversation: open.conversation.id, parent: above, role: "assistant", status: "streaming",
    model,
  });
  owned.add(answer.id);
  try {
    const changed = await append(open, [...added, answer], { clearDraft });
    const placed = changed.messages.get(answer.id);
    if (placed) void write(placed, changed, false);
    // Absent in an insecure context; browsers refuse it or not, as they like.
    void (navigator.storage as StorageManager | undefined)?.persist?.();
    return changed.conversation.id;
  } catch (error) {
    owned.delete(answer.id);
    tellStorage(error);
    return null;
  }
}

/** Goes on with an answer that ended too early: what is there is the beginning of the new one. */
export async function goOn(message: Message, model: string): Promise<void> {
  const open = useChat.getState().open;
  if (!open) return;
  const problem = refusal(open, model, pathTo(open.messages, message.id));
  if (problem) {
    tell(problem);
    return;
  }
  const begun: Message = { ...message, status: "streaming", error: null, finish: "", model };
  owned.add(message.id);
  try {
    await keep(begun);
  } catch (error) {
    owned.delete(message.id);
    tellStorage(error);
    return;
  }
  void write(begun, useChat.getState().open ?? open, true);
}

export function stop(id: string): void {
  useStreams.getState().streams.get(id)?.stop();
}

function setStream(id: string, stream: Stream | null): void {
  useStreams.setState(({ streams }) => {
    const changed = new Map(streams);
    if (stream) changed.set(id, stream);
    else changed.delete(id);
    return { streams: changed };
  });
}

/** Writes the answer `message` until it ends, is stopped or fails. What came is always kept. */
async function write(message: Message, open: Open, continues: boolean): Promise<void> {
  const abort = new AbortController();
  const live = new LiveAnswer(message);
  const stream: Stream = {
    message, live, model: message.model, waits: true, stop: () => abort.abort(),
  };
  setStream(message.id, stream);
  const shown = (): Message => ({
    ...message, text: live.grown.text, reasoning: live.grown.reasoning,
    reasoning_s: live.reasoning_s, tool_calls: live.grown.calls, timings: live.grown.timings,
    finish: live.grown.finish,
  });
  // A timer, as a hidden tab has no frames.
  const timer = setInterval(() => {
    db.messages.put(shown()).then(
      () => tellTabs({ kind: "message", id: message.id, conversation: message.conversation }),
      (error: unknown) => {
        clearInterval(timer);
        tellStorage(error);
      },
    );
  }, WRITE_MS);
  let end: Pick<Message, "status" | "error">;
  try {
    await receive(message, open, continues, abort.signal, (chunk) => {
      live.take(chunk);
      if (stream.waits && hasContent(chunk)) {
        stream.waits = false;
        setStream(message.id, { ...stream });
      }
    });
    end = { status: "done", error: null };
  } catch (error) {
    end = abort.signal.aborted
      ? { status: "stopped", error: null }
      : { status: "failed", error: asProblem(error, t.frame.unreachable) };
  }
  clearInterval(timer);
  await finish({ ...shown(), ...end }, live);
}

const hasContent = (chunk: Chunk): boolean =>
  chunk.choices?.some(({ delta }) =>
    Boolean(delta?.content || delta?.reasoning_content || delta?.tool_calls?.length)) ?? false;

async function finish(message: Message, live: LiveAnswer): Promise<void> {
  tellMeasured(findModel(useServer.getState().state, message.model), message.timings);
  try {
    await keep(message);
    if (live.grown.tokens.length) {
      const before = await db.probabilities.get(message.id);
      await db.probabilities.put(message.id, [...before, ...live.grown.tokens]);
    }
  } catch (error) {
    tellStorage(error);
    // Not stored, but shown: it can still be copied.
    useChat.setState(({ open }) => {
      if (open?.conversation.id !== message.conversation) return {};
      return { open: { ...open, messages: new Map(open.messages).set(message.id, message) } };
    });
  }
  keepBlocks(message.id, message.text, live.parser.finish(message.text));
  owned.delete(message.id);
  setStream(message.id, null);
  useStreams.setState({ ended: t.chat.ended(message.status, live.grown.text) });
}

/** Sends the request and gives each chunk to `take`. Raises what goes wrong. */
async function receive(
  message: Message, open: Open, continues: boolean, signal: AbortSignal,
  take: (chunk: Chunk) => void,
): Promise<void> {
  const path = pathTo(open.messages, continues ? message.id : message.parent);
  const files = await textsOf(path);
  const body = requestBody({
    conversation: open.conversation, model: message.model, path, files, continues,
  });
  const response = await send("/v1/chat/completions", {
    method: "POST", body, signal, accept: "text/event-stream",
  });
  if (!response.body) throw new TypeError("no body");
  for await (const event of sseEvents(response.body)) {
    if (event.data === "[DONE]") return;
    const chunk = JSON.parse(event.data) as Chunk;
    if (chunk.error) throw new ApiError(problemOf(chunk, 500));
    take(chunk);
  }
  // Without its last event a stream isn't whole.
  throw new ApiError({ code: "cut", param: "", ...t.chat.cut });
}

/** The texts of all files in `path`, by their hash. */
export async function textsOf(path: readonly Message[]): Promise<Map<string, string>> {
  const hashes = new Set(path.flatMap((message) => message.blobs.map((blob) => blob.hash)));
  const found = new Map<string, string>();
  for (const hash of hashes) {
    const data = await db.blobs.get(hash);
    if (data) found.set(hash, await data.text());
  }
  return found;
}
