import { ChevronDown, ChevronUp, X } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { IconButton } from "../parts/Button.tsx";
import { t } from "../texts/index.ts";
import css from "./FindBar.module.css";
import { SHOW_ROW } from "./MessageList.tsx";
import type { Row } from "./rows.ts";

/**
 * Finds rows of the conversation, as the browser's own search sees only those near the view.
 * Ctrl+F once more opens that one.
 */
export function FindBar({ rows, onClose }: { rows: readonly Row[]; onClose: () => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const field = useRef<HTMLInputElement>(null);
  const hits = useMemo(() => hitsOf(rows, text), [rows, text]);
  const row = hits[Math.min(at, hits.length - 1)];
  useEffect(() => field.current?.focus(), []);
  useEffect(() => {
    if (row === undefined) return;
    dispatchEvent(new CustomEvent(SHOW_ROW, { detail: row }));
    // After the list has drawn the row.
    const timer = setTimeout(() => mark(text, row), 80);
    return () => clearTimeout(timer);
  }, [row, text]);
  useEffect(() => () => void CSS.highlights?.delete("found"), []);
  const step = (by: number) => {
    if (hits.length) setAt((Math.min(at, hits.length - 1) + by + hits.length) % hits.length);
  };
  return (
    <div className={css.bar} role="search">
      <input
        ref={field} aria-label={t.chat.find} placeholder={t.chat.find} value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
          if (event.key === "Escape") onClose();
          if (event.key === "Enter" || event.key === "Escape") event.preventDefault();
        }}
      />
      <span role="status" className={css.count}>
        {text && t.chat.hits(hits.length ? Math.min(at, hits.length - 1) + 1 : 0, hits.length)}
      </span>
      <IconButton
        small label={t.chat.previousHit} icon={<ChevronUp aria-hidden />} onClick={() => step(-1)}
      />
      <IconButton
        small label={t.chat.nextHit} icon={<ChevronDown aria-hidden />} onClick={() => step(1)}
      />
      <IconButton small label={t.frame.close} icon={<X aria-hidden />} onClick={onClose} />
    </div>
  );
}

/** The numbers of the rows with `text`, in any case. */
export function hitsOf(rows: readonly Row[], text: string): number[] {
  const wanted = text.toLowerCase();
  if (!wanted) return [];
  return rows.flatMap(({ message, results }, i) => {
    const texts = [message.text, ...[...results.values()].map((result) => result.text)];
    return texts.some((each) => each.toLowerCase().includes(wanted)) ? [i] : [];
  });
}

/** Colours `text` where it stands in the row; browsers that can't show the row alone. */
function mark(text: string, row: number): void {
  if (!CSS.highlights) return;
  const element = document.querySelector(`[data-row="${row}"]`);
  const ranges: Range[] = [];
  const wanted = text.toLowerCase();
  const walker = element && document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker?.nextNode(); node; node = walker?.nextNode()) {
    const found = (node.nodeValue ?? "").toLowerCase();
    for (let i = found.indexOf(wanted); i >= 0; i = found.indexOf(wanted, i + wanted.length)) {
      const range = new Range();
      range.setStart(node, i);
      range.setEnd(node, i + wanted.length);
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
}
