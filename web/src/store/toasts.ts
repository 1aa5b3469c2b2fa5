import { create } from "zustand";
import type { Problem } from "../api/types.ts";

export interface Toast {
  id: number;
  text: string;
  hint: string;
  kind: "note" | "error";
  action?: { text: string; run: () => void };
}

/** Milliseconds that a note stays. Errors stay until they are dismissed. */
const NOTE_MS = 5000;

export const useToasts = create<{ toasts: Toast[] }>(() => ({ toasts: [] }));

let last = 0;

export function dismiss(id: number): void {
  useToasts.setState(({ toasts }) => ({ toasts: toasts.filter((toast) => toast.id !== id) }));
}

export function note(text: string, action?: Toast["action"]): void {
  add({ text, hint: "", kind: "note", ...(action ? { action } : {}) });
}

export function tell(problem: Problem): void {
  add({ text: problem.message, hint: problem.hint, kind: "error" });
}

function add(toast: Omit<Toast, "id">): void {
  const id = ++last;
  useToasts.setState(({ toasts }) => ({
    // The same error again replaces itself.
    toasts: [...toasts.filter((old) => old.text !== toast.text), { ...toast, id }].slice(-4),
  }));
  if (toast.kind === "note") setTimeout(() => dismiss(id), NOTE_MS);
}
