import type { Problem } from "./types.ts";

/** What the server, or the way to it, answered in place of a result. */
export class ApiError extends Error {
  readonly problem: Problem;
  readonly status: number;

  constructor(problem: Problem, status = 0) {
    super(problem.message);
    this.problem = problem;
    this.status = status;
  }
}

/** `given`, the JSON of an error in `/ui/api`'s or OpenAI's shape, as a problem. */
export function problemOf(given: unknown, status: number): Problem {
  const error = (given as { error?: unknown } | null)?.error;
  if (typeof error === "string") return { code: String(status), message: error, hint: "", param: "" };
  const known = (error ?? {}) as Record<string, unknown>;
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  const [message, hint] = withHint(text(known["message"]) || `HTTP ${status}`);
  return {
    code: text(known["code"]) || text(known["type"]) || String(status),
    message,
    hint: text(known["hint"]) || hint,
    param: text(known["param"]),
  };
}

/** OpenAI's shape has no place for hints: the server writes them behind the message. */
function withHint(text: string): [string, string] {
  const found = /^([\s\S]*?) \(hint: ([\s\S]*)\)$/.exec(text);
  return found ? [found[1] ?? "", found[2] ?? ""] : [text, ""];
}

/** `thrown` as a problem; `lost` is the text for a connection that broke or never was. */
export function asProblem(thrown: unknown, lost: { message: string; hint: string }): Problem {
  if (thrown instanceof ApiError) return thrown.problem;
  if (thrown instanceof TypeError) return { code: "unreachable", param: "", ...lost };
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return { code: "internal", message, hint: "", param: "" };
}
