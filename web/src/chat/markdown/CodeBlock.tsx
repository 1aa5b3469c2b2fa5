import { Check, Copy } from "lucide-react";
import { memo, useEffect, useRef, useState } from "react";
import { IconButton } from "../../parts/Button.tsx";
import { copyText } from "../../parts/copy.ts";
import { t } from "../../texts/index.ts";
import type { Coloured } from "./highlight.ts";
import css from "./markdown.module.css";

/** Longer code isn't coloured while it grows: it would be parsed again and again. */
const MOST_LIVE = 20_000;
/** Longer code is never coloured. */
const MOST = 200_000;
/** Milliseconds between two looks at code that grows. */
const BETWEEN = 250;

export interface CodeBlockProps {
  text: string;
  lang: string;
  /** The block may still grow. */
  live: boolean;
}

export const CodeBlock = memo(function CodeBlock({ text, lang, live }: CodeBlockProps) {
  const coloured = useColours(text, lang, live);
  return (
    <figure className={css.block}>
      <figcaption className={css.bar}>
        <span>{lang || t.chat.code}</span>
        <CopyButton text={text} label={t.chat.copyCode} />
      </figcaption>
      <pre tabIndex={0} aria-label={t.chat.codeIn(lang)}>
        <code>
          {coloured && text.startsWith(coloured.text) ? (
            <>{coloured.nodes}{text.slice(coloured.text.length)}</>
          ) : (
            text
          )}
        </code>
      </pre>
    </figure>
  );
});

/** The coloured beginning of `text`; null where there is none. */
function useColours(text: string, lang: string, live: boolean): Coloured | null {
  const [coloured, setColoured] = useState<Coloured | null>(null);
  const last = useRef(0);
  useEffect(() => {
    if (!lang || text.length > (live ? MOST_LIVE : MOST)) return;
    let gone = false;
    const wait = live ? Math.max(0, last.current + BETWEEN - performance.now()) : 0;
    const timer = setTimeout(() => {
      last.current = performance.now();
      void import("./highlight.ts").then(({ colour }) => {
        if (!gone) setColoured(colour(text, lang));
      });
    }, wait);
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [text, lang, live]);
  return coloured;
}

/** Copies the source; says for a moment that it did. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <IconButton
      small label={done ? t.chat.copied : label}
      icon={done ? <Check aria-hidden /> : <Copy aria-hidden />}
      onClick={() => void copyText(text).then(setDone)}
    />
  );
}
