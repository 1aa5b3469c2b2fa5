import { useId, type ComponentProps, type ReactNode } from "react";
import css from "./Field.module.css";

interface Labelled {
  label: string;
  hint?: ReactNode;
  /** What is wrong with the value; "" for nothing. */
  wrong?: string;
}

function Frame({ id, label, hint, wrong, children }: Labelled & { id: string; children: ReactNode }) {
  return (
    <div className={css.field}>
      <label htmlFor={id} className={css.label}>{label}</label>
      {children}
      {hint && <p id={`${id}-hint`} className={css.hint}>{hint}</p>}
      {wrong && <p id={`${id}-wrong`} className={css.wrong} role="alert">{wrong}</p>}
    </div>
  );
}

/** What describes the field called `id`. */
const described = (id: string, { hint, wrong }: Labelled) =>
  [hint && `${id}-hint`, wrong && `${id}-wrong`].filter(Boolean).join(" ") || undefined;

export type TextFieldProps = Labelled & Omit<ComponentProps<"input">, "id">;

export function TextField({ label, hint, wrong, className, ...rest }: TextFieldProps) {
  const id = useId();
  const frame = { label, ...(hint ? { hint } : {}), ...(wrong ? { wrong } : {}) };
  return (
    <Frame id={id} {...frame}>
      <input
        id={id}
        className={`${css.input} ${className ?? ""}`}
        aria-invalid={wrong ? true : undefined}
        aria-describedby={described(id, frame)}
        {...rest}
      />
    </Frame>
  );
}

export type TextAreaProps = Labelled & Omit<ComponentProps<"textarea">, "id"> & { mono?: boolean };

export function TextArea({ label, hint, wrong, mono, ...rest }: TextAreaProps) {
  const id = useId();
  const frame = { label, ...(hint ? { hint } : {}), ...(wrong ? { wrong } : {}) };
  return (
    <Frame id={id} {...frame}>
      <textarea
        id={id}
        className={`${css.input} ${css.area} ${mono ? css.mono : ""}`}
        aria-invalid={wrong ? true : undefined}
        aria-describedby={described(id, frame)}
        {...rest}
      />
    </Frame>
  );
}
