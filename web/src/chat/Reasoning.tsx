import { Brain, ChevronRight } from "lucide-react";
import { useId, useState } from "react";
import type { LiveAnswer } from "../store/live.ts";
import { duration, t } from "../texts/index.ts";
import { shownSoFar } from "./markdown/blocks.ts";
import { blocksFor } from "./markdown/parsed.ts";
import { Blocks } from "./markdown/render.tsx";
import css from "./Reasoning.module.css";

export interface ReasoningProps {
  id: string;
  live: LiveAnswer | null;
  text: string;
  seconds: number;
  /** The model still thinks. */
  thinks: boolean;
}

/** What the model thought, folded. It is neither parsed nor drawn while it is. */
export function Reasoning({ id, live, text, seconds, thinks }: ReasoningProps) {
  const [open, setOpen] = useState(false);
  const body = useId();
  if (!text) return null;
  return (
    <section className={css.reasoning}>
      <button
        type="button" className={css.head} aria-expanded={open} aria-controls={body}
        onClick={() => setOpen(!open)}
      >
        <Brain aria-hidden className={thinks ? css.thinks : undefined} />
        {thinks ? t.chat.thinking : t.chat.thought(duration(seconds))}
        <ChevronRight aria-hidden className={css.arrow} />
      </button>
      <div id={body} className={open ? css.body : undefined}>
        {open && (
          <Blocks
            blocks={live
              ? live.thoughts.update(shownSoFar(text))
              : blocksFor(`${id}-reasoning`, text)}
            live={thinks}
          />
        )}
      </div>
    </section>
  );
}
