import { useEffect, useRef, useState } from "react";
import { Button } from "../parts/Button.tsx";
import { t } from "../texts/index.ts";
import css from "./Row.module.css";

export interface EditorProps {
  text: string;
  onCancel: () => void;
  onSave: (text: string) => void;
  /** The name of the other way to save, as a branch of its own. */
  second?: string;
  onSecond?: (text: string) => void;
}

/** Edits a message where it stands. */
export function Editor({ text, onCancel, onSave, second, onSecond }: EditorProps) {
  const [now, setNow] = useState(text);
  const area = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    area.current?.focus();
    area.current?.setSelectionRange(text.length, text.length);
  }, []);
  return (
    <div className={css.editor}>
      <textarea
        ref={area} aria-label={t.chat.editing} value={now}
        onChange={(event) => setNow(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.preventDefault();
            onCancel();
          }
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            (onSecond ?? onSave)(now);
          }
        }}
      />
      <div className={css.editorButtons}>
        <Button small kind="quiet" onClick={onCancel}>{t.frame.cancel}</Button>
        <Button small onClick={() => onSave(now)}>{t.chat.save}</Button>
        {second && onSecond && (
          <Button small kind="primary" onClick={() => onSecond(now)}>{second}</Button>
        )}
      </div>
    </div>
  );
}
