import { useEffect, useRef, useState } from "react";
import css from "./markdown.module.css";

type Render = typeof import("./temml.ts").renderMath;

let loading: Promise<Render> | null = null;

/** Maths as MathML, which screen readers know; its source until it is there, or if it is wrong. */
export function MathView({ tex, display }: { tex: string; display: boolean }) {
  const place = useRef<HTMLSpanElement>(null);
  const [isDrawn, setDrawn] = useState(false);
  useEffect(() => {
    let gone = false;
    loading ??= import("./temml.ts").then((loaded) => loaded.renderMath);
    void loading.then((render) => {
      if (!gone && place.current) setDrawn(render(tex, place.current, display));
    });
    return () => {
      gone = true;
    };
  }, [tex, display]);
  return (
    <span className={display ? css.display : undefined} tabIndex={display ? 0 : undefined}>
      {!isDrawn && <code className={css.code}>{tex}</code>}
      <span ref={place} hidden={!isDrawn} />
    </span>
  );
}
