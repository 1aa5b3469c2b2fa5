import { CircleAlert, X } from "lucide-react";
import type { ReactNode } from "react";
import type { Problem } from "../api/types.ts";
import { dismiss, useToasts } from "../store/toasts.ts";
import { t } from "../texts/index.ts";
import { Button, IconButton } from "./Button.tsx";
import css from "./Feedback.module.css";

/** An error in the command line's words, with its hint. `children`: what can be done. */
export function ProblemBox({ problem, children }: { problem: Problem; children?: ReactNode }) {
  return (
    <div role="alert" className={css.problem}>
      <CircleAlert aria-hidden />
      <div className={css.words}>
        <p>{problem.message}</p>
        {problem.hint && <p className={css.hint}>{t.frame.hint(problem.hint)}</p>}
        {children && <div className={css.actions}>{children}</div>}
      </div>
    </div>
  );
}

export function Spinner() {
  return <span className={css.spinner} aria-hidden />;
}

/** `share` of something, 0 to 1; null: it isn't known. */
export function Progress({ label, share }: { label: string; share: number | null }) {
  return (
    <div
      role="progressbar" aria-label={label} aria-valuemin={0} aria-valuemax={100}
      aria-valuenow={share === null ? undefined : Math.round(share * 100)}
      className={`${css.progress} ${share === null ? css.unknown : ""}`}
    >
      <span style={{ width: share === null ? "30%" : `${Math.min(1, share) * 100}%` }} />
    </div>
  );
}

/** What a list shows when it is empty. */
export function Empty({ icon, title, children }: {
  icon?: ReactNode; title: string; children?: ReactNode;
}) {
  return (
    <div className={css.empty}>
      {icon}
      <p className={css.emptyTitle}>{title}</p>
      {children}
    </div>
  );
}

export function Toasts() {
  const toasts = useToasts((state) => state.toasts);
  return (
    <div className={css.toasts} role="region" aria-label={t.frame.messages}>
      {toasts.map((toast) => (
        <div
          key={toast.id}
          role={toast.kind === "error" ? "alert" : "status"}
          className={`${css.toast} ${toast.kind === "error" ? css.error : ""}`}
        >
          <div className={css.words}>
            <p>{toast.text}</p>
            {toast.hint && <p className={css.hint}>{t.frame.hint(toast.hint)}</p>}
          </div>
          {toast.action && (
            <Button
              small
              onClick={() => {
                toast.action?.run();
                dismiss(toast.id);
              }}
            >
              {toast.action.text}
            </Button>
          )}
          <IconButton
            small label={t.frame.dismiss} icon={<X aria-hidden />} onClick={() => dismiss(toast.id)}
          />
        </div>
      ))}
    </div>
  );
}
