import { MessageSquare, Search, Terminal, Box } from "lucide-react";
import { useEffect, useId, useMemo, useRef, useState, type ReactNode } from "react";
import { Dialog } from "../parts/Dialog.tsx";
import { go } from "../route.ts";
import { useChat } from "../store/chat.ts";
import { searchTexts, type Hit } from "../store/search.ts";
import { useServer } from "../store/server.ts";
import { exportAll } from "../store/transfer.ts";
import { t } from "../texts/index.ts";
import type { Over } from "./ChatView.tsx";
import { choose } from "./Header.tsx";
import css from "./Palette.module.css";
import { mayChat, type Chosen } from "./useModel.ts";

interface Entry {
  key: string;
  icon: ReactNode;
  text: string;
  detail?: string;
  run: () => void;
}

export interface PaletteProps {
  onClose: () => void;
  model: Chosen;
  onOver: (over: Over) => void;
}

/**
 * Finds conversations by all their texts, models and commands. It is no chunk of its own: what is
 * typed right after its key would be lost.
 */
export function Palette({ onClose, model, onOver }: PaletteProps) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const id = useId();
  const hits = useHits(text);
  const entries = useEntries(text, hits, model, onOver);
  const current = Math.min(at, entries.length - 1);
  const run = (entry: Entry | undefined) => {
    if (!entry) return;
    onClose();
    entry.run();
  };
  const move = (to: number) => {
    setAt(to);
    list.current?.children[to]?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog open onClose={onClose} title={t.chat.search} shape="bare" focus={field}>
      <div className={css.field}>
        <Search aria-hidden />
        <input
          ref={field} value={text} placeholder={t.chat.searchAll} aria-label={t.chat.searchAll}
          role="combobox" aria-expanded="true" aria-controls={id}
          aria-activedescendant={entries[current] ? `${id}-${current}` : undefined}
          onChange={(event) => {
            setText(event.target.value);
            setAt(0);
          }}
          onKeyDown={(event) => {
            const n = entries.length;
            if (event.key === "ArrowDown" && n) move((current + 1) % n);
            else if (event.key === "ArrowUp" && n) move((current + n - 1) % n);
            else if (event.key === "Enter") run(entries[current]);
            else return;
            event.preventDefault();
          }}
        />
      </div>
      <ul ref={list} id={id} className={css.list} role="listbox" aria-label={t.chat.found}>
        {entries.map((entry, i) => (
          <li
            key={entry.key} id={`${id}-${i}`} role="option" aria-selected={i === current}
            className={css.entry} onClick={() => run(entry)} onPointerMove={() => setAt(i)}
          >
            {entry.icon}
            <span>
              {entry.text}
              {entry.detail && <small>{entry.detail}</small>}
            </span>
          </li>
        ))}
      </ul>
      {entries.length === 0 && <p className={css.none} role="status">{t.chat.nothingFound}</p>}
    </Dialog>
  );
}

function useHits(text: string): readonly Hit[] {
  const [hits, setHits] = useState<readonly Hit[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    setHits([]);
    if (text.trim().length >= 2) void searchTexts(text.trim(), setHits, abort.signal);
    return () => abort.abort();
  }, [text]);
  return hits;
}

/** The most conversations that are listed. */
const MOST = 12;

function useEntries(
  text: string, hits: readonly Hit[], model: Chosen, onOver: (over: Over) => void,
): Entry[] {
  const list = useChat((chat) => chat.list);
  const models = useServer((server) => server.state?.models);
  return useMemo(() => {
    const wanted = text.trim().toLowerCase();
    const matches = (each: string) => each.toLowerCase().includes(wanted);
    const icon = <MessageSquare aria-hidden />;
    const titles = (list ?? []).filter((each) => matches(each.title)).slice(0, MOST);
    const known = new Set(titles.map((each) => each.id));
    const byText = hits.filter((hit) => !known.has(hit.conversation)).flatMap((hit) => {
      const found = list?.find((each) => each.id === hit.conversation);
      return found ? [{ found, hit }] : [];
    });
    const open = (conversation: string) => () => go({ view: "chat", id: conversation });
    return [
      ...commands(onOver).filter((each) => matches(each.text)),
      ...(models ?? [])
        .filter((each) => mayChat(each) && each.id !== model.id && matches(each.id))
        .map((each) => ({
          key: `model-${each.id}`, icon: <Box aria-hidden />, text: t.chat.useModel(each.id),
          run: () => choose(each.id),
        })),
      ...titles.map((each) => ({
        key: each.id, icon, text: each.title || t.chat.newTitle, run: open(each.id),
      })),
      ...byText.map(({ found, hit }) => ({
        key: `hit-${found.id}`, icon, text: found.title || t.chat.newTitle, detail: hit.excerpt,
        run: open(found.id),
      })),
    ];
  }, [text, hits, list, models, model.id, onOver]);
}

function commands(onOver: (over: Over) => void): Entry[] {
  const icon = <Terminal aria-hidden />;
  return [
    { key: "new", icon, text: t.chat.new, run: () => go({ view: "chat", id: "" }) },
    {
      key: "models", icon, text: t.chat.goTo(t.frame.views.models),
      run: () => go({ view: "models", id: "" }),
    },
    {
      key: "watch", icon, text: t.chat.goTo(t.frame.views.watch),
      run: () => go({ view: "watch", id: "" }),
    },
    { key: "export", icon, text: t.chat.exportAll, run: () => void exportAll() },
    { key: "keys", icon, text: t.frame.shortcuts, run: () => onOver("shortcuts") },
  ];
}
