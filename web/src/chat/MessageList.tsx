import { ArrowDown } from "lucide-react";
import {
  useEffect, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent,
} from "react";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import { Button } from "../parts/Button.tsx";
import { useStreams } from "../store/answering.ts";
import { t } from "../texts/index.ts";
import { AnswerRow } from "./AnswerRow.tsx";
import css from "./MessageList.module.css";
import { QuestionRow } from "./QuestionRow.tsx";
import type { Row } from "./rows.ts";
import { useFollow } from "./useFollow.ts";

/** Dispatched on window with a row's number: shows that row. */
export const SHOW_ROW = "unladen-show-row";

/** The rows of the shown branch. Only those near the view are in the document. */
export function MessageList({ rows, model }: { rows: readonly Row[]; model: string }) {
  const scroller = useRef<HTMLDivElement>(null);
  const inner = useRef<HTMLDivElement>(null);
  const list = useRef<VirtualizerHandle>(null);
  const streams = useStreams((state) => state.streams);
  const [focused, setFocused] = useState(-1);
  const isWritten = rows.some((row) => streams.has(row.message.id));
  const follow = useFollow(scroller, inner, isWritten);

  // A running answer and the row with the focus stay in the document, wherever the view is.
  const kept = useMemo(() => {
    const running = rows.flatMap((row, i) => (streams.has(row.message.id) ? [i] : []));
    return focused >= 0 && focused < rows.length ? [...running, focused] : running;
  }, [rows, streams, focused]);

  useLayoutEffect(() => {
    list.current?.scrollToIndex(rows.length - 1, { align: "end" });
  }, []);
  // A new question is shown, wherever the view was.
  const n = rows.length;
  const before = useRef(n);
  useLayoutEffect(() => {
    if (n > before.current) follow.toEnd();
    before.current = n;
  }, [n]);
  useEffect(() => {
    const onShow = (event: Event) => {
      follow.leave();
      list.current?.scrollToIndex((event as CustomEvent<number>).detail, { align: "center" });
    };
    addEventListener(SHOW_ROW, onShow);
    return () => removeEventListener(SHOW_ROW, onShow);
  }, []);

  // The browser's own way to an end is an animation, which stops when rows on it get their sizes.
  const onKeyDown = (event: KeyboardEvent) => {
    const isPlain = !(event.altKey || event.ctrlKey || event.metaKey || event.shiftKey);
    const target = event.target as Element;
    // Menus are children of rows for React only.
    const isHere = event.currentTarget.contains(target) && !target.closest("input, textarea");
    if (!isPlain || !isHere || event.defaultPrevented) return;
    if (event.key === "Home") list.current?.scrollToIndex(0, { align: "start" });
    else if (event.key === "End") follow.toEnd();
    else return;
    event.preventDefault();
  };

  return (
    <div className={css.frame}>
      <div
        ref={scroller} className={css.scroller} role="log" aria-live="off" aria-label={t.chat.log}
        tabIndex={0} onKeyDown={onKeyDown}
        onFocus={(event) => setFocused(rowOf(event.target))}
        onBlur={() => setFocused(-1)}
      >
        <div ref={inner} className={css.inner}>
          <Virtualizer ref={list} scrollRef={scroller} keepMounted={kept} bufferSize={600} itemSize={200}>
            {rows.map((row, i) => (
              <div key={row.message.id} data-row={i} className={css.row}>
                {row.message.role === "assistant" ? (
                  <AnswerRow row={row} model={model} isLast={i === rows.length - 1} />
                ) : (
                  <QuestionRow message={row.message} model={model} />
                )}
              </div>
            ))}
          </Virtualizer>
        </div>
      </div>
      {follow.isAway && (
        <Button
          small className={css.latest} icon={<ArrowDown size={15} aria-hidden />}
          onClick={follow.toEnd}
        >
          {t.chat.latest}
        </Button>
      )}
    </div>
  );
}

const rowOf = (element: Element): number =>
  Number(element.closest<HTMLElement>("[data-row]")?.dataset["row"] ?? -1);
