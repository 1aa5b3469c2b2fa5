import { useEffect, useMemo, useRef, useState } from "react";
import { tellStorage } from "../store/chat.ts";
import * as db from "../store/db.ts";
import { groups, textOf, type TokenGroup } from "../store/deltas.ts";
import type { Message, TokenShare } from "../store/records.ts";
import { t } from "../texts/index.ts";
import css from "./Tokens.module.css";

/** An answer's tokens, each in the shade of its probability, in place of its text. */
export function Tokens({ message }: { message: Message }) {
  const [tokens, setTokens] = useState<TokenShare[] | null>(null);
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    db.probabilities.get(message.id).then(setTokens, tellStorage);
  }, [message.id]);
  const shown = useMemo(() => groups(tokens ?? []), [tokens]);
  if (tokens === null) return null;
  if (shown.length === 0) return <p className={css.none}>{t.chat.noTokens}</p>;
  const move = (to: number) => {
    const next = Math.max(0, Math.min(shown.length - 1, to));
    setAt(next);
    list.current?.querySelectorAll("button")[next]?.focus();
  };
  const current = shown[at];
  return (
    <div>
      <div
        ref={list} className={css.tokens} role="group" aria-label={t.chat.tokens}
        onKeyDown={(event) => {
          const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10 }[event.key];
          if (step === undefined || event.altKey) return;
          event.preventDefault();
          move(at + step);
        }}
      >
        {shown.map((group, i) => (
          <button
            key={i} type="button" tabIndex={i === at ? 0 : -1} aria-pressed={i === at}
            data-shade={shade(group.logprob)} className={css.token}
            aria-label={t.chat.tokenIs(group.text, percent(group.logprob))}
            onClick={() => setAt(i)} onFocus={() => setAt(i)} onPointerEnter={() => setAt(i)}
          >
            {group.text}
          </button>
        ))}
      </div>
      {current && <Alternatives group={current} />}
    </div>
  );
}

function Alternatives({ group }: { group: TokenGroup }) {
  return (
    <div className={css.alternatives} role="region" aria-label={t.chat.alternatives}>
      {group.tokens.map((token, i) => (
        <ol key={i}>
          {[...token.top].sort((a, b) => b.logprob - a.logprob).map((other, j) => (
            <li key={j} data-chosen={textOf(other.bytes) === textOf(token.bytes)}>
              <code>{visible(textOf(other.bytes))}</code>
              <span className={css.bar}>
                <i style={{ width: `${Math.exp(other.logprob) * 100}%` }} />
              </span>
              <span>{percent(other.logprob)}</span>
            </li>
          ))}
        </ol>
      ))}
    </div>
  );
}

const percent = (logprob: number): string => `${(Math.exp(logprob) * 100).toFixed(1)} %`;

/** Spaces and line ends as signs. */
const visible = (text: string): string => text.replace(/ /g, "␣").replace(/\n/g, "↵") || "∅";

/** 0 for a sure token, 4 for a surprising one. */
function shade(logprob: number): number {
  const p = Math.exp(logprob);
  return [0.9, 0.6, 0.3, 0.1].filter((limit) => p < limit).length;
}
