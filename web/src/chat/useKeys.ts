import { useEffect } from "react";
import { go } from "../route.ts";
import { stop, useStreams } from "../store/answering.ts";
import { showBranch, useChat } from "../store/chat.ts";
import { usePreferences } from "../store/preferences.ts";
import type { Message } from "../store/records.ts";
import { siblings } from "../store/tree.ts";
import type { Over } from "./ChatView.tsx";

export interface Keys {
  path: readonly Message[];
  model: string;
  setOver: (over: Over) => void;
  openFind: () => void;
  isFinding: boolean;
}

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("input, textarea, [contenteditable]") !== null;

/** The keys of the chat that work everywhere in it. */
export function useKeys(keys: Keys): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing) return;
      if (press(event, keys)) event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
}

/** Does what `event` asks for; false where it asks for nothing of the chat. */
function press(event: KeyboardEvent, keys: Keys): boolean {
  const isControl = event.ctrlKey || event.metaKey;
  const key = event.key.toLowerCase();
  const isInDialog = document.querySelector("[role=dialog]") !== null;
  if (isControl && !event.altKey && key === "k") {
    keys.setOver("palette");
    return true;
  }
  if (isInDialog) return false;
  if (isControl && event.shiftKey && key === "o") {
    go({ view: "chat", id: "" });
    return true;
  }
  // Once more, and the browser's own search opens.
  if (isControl && !event.shiftKey && key === "f" && !keys.isFinding && keys.path.length) {
    keys.openFind();
    return true;
  }
  if (event.key === "Escape") return stopShown(keys.path);
  if (event.altKey && !isControl && (event.key === "ArrowLeft" || event.key === "ArrowRight"))
    return turn(event.key === "ArrowLeft" ? -1 : 1, event.target);
  if (event.key === "?" && !isTyping(event.target) && usePreferences.getState().singleKeys) {
    keys.setOver("shortcuts");
    return true;
  }
  return false;
}

function stopShown(path: readonly Message[]): boolean {
  const { streams } = useStreams.getState();
  const running = path.filter((message) => streams.has(message.id));
  for (const message of running) stop(message.id);
  return running.length > 0;
}

/** Shows the branch beside: of the message with the focus, else of the last one that has others. */
function turn(step: number, target: EventTarget | null): boolean {
  const open = useChat.getState().open;
  if (!open) return false;
  const focused = (target as HTMLElement | null)?.closest<HTMLElement>("[data-message]")?.dataset;
  const candidates = focused?.["message"]
    ? [focused["message"]]
    : [...document.querySelectorAll<HTMLElement>("[data-siblings]")]
        .map((element) => element.dataset["message"] ?? "").reverse();
  const id = candidates[0];
  if (!id) return false;
  const all = siblings(open.messages, id);
  const next = all[all.findIndex((message) => message.id === id) + step];
  if (next) void showBranch(next.id);
  return true;
}
