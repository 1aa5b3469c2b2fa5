import { useEffect, useRef, useState } from "react";
import { tellStorage } from "../store/chat.ts";
import * as db from "../store/db.ts";
import type { Draft } from "../store/records.ts";

/** Milliseconds after the last key until the draft is stored. */
const REST_MS = 150;

export interface Drafting {
  /** null until the stored draft is read. */
  draft: Draft | null;
  change: (changes: Partial<Draft>) => void;
  /** Stores nothing until the next change: the text is on its way into a message. */
  hold: () => void;
  /** The message with the draft's text is stored: the box is empty. */
  taken: () => void;
}

/** The draft of the conversation `id`. It is stored while it is written, and found again. */
export function useDraft(id: string): Drafting {
  const [draft, setDraft] = useState<Draft | null>(null);
  const now = useRef<Draft | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);

  const store = () => {
    if (timer.current === undefined || !now.current) return;
    clearTimeout(timer.current);
    timer.current = undefined;
    db.drafts.put(now.current).catch(tellStorage);
  };
  const hold = () => {
    clearTimeout(timer.current);
    timer.current = undefined;
  };
  const show = (changed: Draft) => {
    now.current = changed;
    setDraft(changed);
  };

  useEffect(() => {
    let gone = false;
    const empty: Draft = { conversation: id, text: "", blobs: [] };
    db.drafts.get(id).then(
      (found) => {
        if (!gone) show(found ?? empty);
      },
      (error: unknown) => {
        tellStorage(error);
        if (!gone) show(empty);
      },
    );
    const onHide = () => store();
    addEventListener("pagehide", onHide);
    document.addEventListener("visibilitychange", onHide);
    return () => {
      gone = true;
      store();
      removeEventListener("pagehide", onHide);
      document.removeEventListener("visibilitychange", onHide);
    };
  }, [id]);

  return {
    draft,
    change: (changes) => {
      if (!now.current) return;
      show({ ...now.current, ...changes });
      clearTimeout(timer.current);
      timer.current = setTimeout(store, REST_MS);
    },
    hold,
    taken: () => {
      hold();
      show({ conversation: id, text: "", blobs: [] });
    },
  };
}
