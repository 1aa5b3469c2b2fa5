/** The server's log: which lines are shown, and how a line is told apart from its hint. */

import type { Line } from "../api/types.ts";

/** Lines that the page keeps; the server keeps no more. */
export const KEPT = 2000;

export const LEVELS = ["debug", "info", "warning", "error"] as const;
export type Level = (typeof LEVELS)[number];

/** `known` with `more` at the end. Lines that are known already are left out. */
export function withLines(known: readonly Line[], more: readonly Line[]): Line[] {
  const last = known.at(-1)?.n ?? 0;
  const fresh = more.filter((line) => line.n > last);
  return [...known, ...fresh].slice(-KEPT);
}

/** The lines of `level` or above with all words of `text`. An unknown level counts as an error. */
export function shown(lines: readonly Line[], level: Level, text: string): Line[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const least = LEVELS.indexOf(level);
  return lines.filter((line) => {
    const own = (LEVELS as readonly string[]).indexOf(line.level);
    const lower = line.text.toLowerCase();
    return (own < 0 || own >= least) && words.every((word) => lower.includes(word));
  });
}

/** A line's text and the hint at its end, "" for none. */
export function withoutHint(text: string): [string, string] {
  const found = /^([\s\S]*?)\s*\(hint: ([\s\S]*)\)\s*$/.exec(text);
  return found ? [found[1] ?? "", found[2] ?? ""] : [text, ""];
}

/** `lines` as text, for the clipboard. */
export function asText(lines: readonly Line[]): string {
  return lines
    .map(({ time, level, text }) => `${new Date(time * 1000).toISOString()} ${level} ${text}\n`)
    .join("");
}
