import { ArrowDownToLine, Copy } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { Virtualizer, type VirtualizerHandle } from "virtua";
import type { Line } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { copyText } from "../parts/copy.ts";
import { TextField } from "../parts/Field.tsx";
import { Select } from "../parts/Select.tsx";
import { note, tell } from "../store/toasts.ts";
import { clockOf, count, t } from "../texts/index.ts";
import { asText, LEVELS, shown, withoutHint, type Level } from "./lines.ts";
import css from "./Log.module.css";
import { useLines } from "./useLines.ts";

const words = t.watch.log;
/** Pixels from the end within which the list counts as being there. */
const NEAR = 24;
/** Keys that scroll towards older lines. */
const UP: ReadonlySet<string> = new Set(["ArrowUp", "PageUp", "Home"]);

/** The server's log: by level, searched, followed, copied. */
export function Log({ run }: { run: string }) {
  const lines = useLines(run);
  const [level, setLevel] = useState<Level>("info");
  const [text, setText] = useState("");
  const [follows, setFollows] = useState(true);
  const found = useMemo(() => shown(lines, level, text), [lines, level, text]);
  const copy = async () => {
    if (await copyText(asText(found))) note(words.copied(count(found.length)));
    else tell({ code: "", param: "", ...words.notCopied });
  };
  return (
    <section className={css.log} aria-labelledby="log-title">
      <header className={css.header}>
        <h2 id="log-title">{words.title}</h2>
        <Select
          bare label={words.level} value={level} onChange={setLevel}
          items={LEVELS.map((value) => ({ value, text: words.levels[value] }))}
        />
        <div className={css.search}>
          <TextField
            label={words.search} type="search" value={text} placeholder={words.search}
            onChange={(event) => setText(event.target.value)}
          />
        </div>
        <Button
          aria-pressed={follows} className={follows ? css.follows ?? "" : ""}
          icon={<ArrowDownToLine aria-hidden size={16} />} onClick={() => setFollows(!follows)}
        >
          {words.follow}
        </Button>
        <Button
          icon={<Copy aria-hidden size={16} />} disabled={found.length === 0}
          onClick={() => void copy()}
        >
          {words.copy}
        </Button>
      </header>
      {found.length === 0 ? (
        <p className={css.none}>{lines.length === 0 ? words.none : words.noneFound}</p>
      ) : (
        <Lines lines={found} follows={follows} onFollow={setFollows} />
      )}
    </section>
  );
}

function Lines({ lines, follows, onFollow }: {
  lines: readonly Line[]; follows: boolean; onFollow: (follows: boolean) => void;
}) {
  const list = useRef<VirtualizerHandle>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (follows) list.current?.scrollToIndex(lines.length - 1, { align: "end" });
  }, [lines, follows]);
  const goes = (isUp: boolean) => {
    const element = box.current;
    if (!element) return;
    const rest = element.scrollHeight - element.scrollTop - element.clientHeight;
    if (rest < NEAR && !isUp) onFollow(true);
    else if (isUp) onFollow(false);
  };
  return (
    <div
      ref={box} className={css.lines} role="log" aria-live="off" aria-label={words.lines}
      tabIndex={0}
      // A person who goes up wants to read on there.
      onWheel={(event) => goes(event.deltaY < 0)}
      onTouchMove={() => goes(true)}
      onKeyDown={(event) => {
        if (UP.has(event.key)) onFollow(false);
        else if (event.key === "End") onFollow(true);
      }}
    >
      <Virtualizer ref={list} scrollRef={box}>
        {lines.map((line) => <Row key={line.n} line={line} />)}
      </Virtualizer>
    </div>
  );
}

function Row({ line }: { line: Line }) {
  const [text, hint] = withoutHint(line.text);
  return (
    <div className={`${css.line} ${css[line.level] ?? ""}`}>
      <time dateTime={new Date(line.time * 1000).toISOString()}>
        {clockOf(line.time)}
      </time>
      <span className={css.level}>{words.names[line.level] ?? line.level}</span>
      <span className={css.text}>
        {text}
        {hint && <span className={css.hint}>{t.frame.hint(hint)}</span>}
      </span>
    </div>
  );
}
