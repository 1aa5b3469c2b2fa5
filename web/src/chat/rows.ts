import type { Message } from "../store/records.ts";

/** What the list shows as one row: a question, or an answer with its tools' results. */
export interface Row {
  message: Message;
  /** Results of the calls of this answer, by the call's id. */
  results: ReadonlyMap<string, Message>;
}

const NONE: ReadonlyMap<string, Message> = new Map();

/** The same row for the same message: it isn't drawn again. */
const known = new WeakMap<Message, Row>();

function rowOf(message: Message): Row {
  const found = known.get(message) ?? { message, results: NONE };
  known.set(message, found);
  return found;
}

/** The rows of a branch. A result without its call is a row of its own. */
export function rowsOf(path: readonly Message[]): Row[] {
  const rows: Row[] = [];
  for (const message of path) {
    const last = rows.at(-1);
    const isResult = message.role === "tool" &&
      last?.message.tool_calls.some((call) => call.id === message.tool_call_id);
    if (isResult && last)
      rows[rows.length - 1] = {
        ...last, results: new Map(last.results).set(message.tool_call_id, message),
      };
    else rows.push(rowOf(message));
  }
  return rows;
}
