import type { ModelState } from "../api/types.ts";
import { useChat } from "../store/chat.ts";
import { usePreferences } from "../store/preferences.ts";
import { findModel, useServer } from "../store/server.ts";

/** The model that the open conversation talks to. */
export interface Chosen {
  /** "" where the server has none for chats. */
  id: string;
  /** undefined: the server doesn't list it. */
  state: ModelState | undefined;
}

export function useModel(): Chosen {
  const wanted = useChat((chat) => chat.open?.conversation.model ?? null);
  const preferred = usePreferences((wishes) => wishes.model);
  const server = useServer((each) => each.state);
  const id = wanted ?? (findModel(server, preferred)?.id || firstFor(server?.models ?? []));
  return { id, state: findModel(server, id) };
}

/** Whether `model` is for chats, as far as is known before its file is read. */
export const mayChat = (model: ModelState): boolean =>
  model.can.length === 0 || model.can.includes("chat");

const firstFor = (models: readonly ModelState[]): string =>
  models.find(mayChat)?.id ?? "";
