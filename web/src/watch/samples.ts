/** The server's samples as columns: one value a second for each line of a plot. */

import type { Columns, Sample } from "../api/types.ts";

/** Seconds that the plots show. */
export const SECONDS = 600;
/** Seconds over which the share of cached tokens is taken. */
const CACHE_SECONDS = 60;

export const NOTHING: Columns = {
  time: [], decode_tps: [], prefill_tps: [], running: [], waiting: [], prompt_tokens: [],
  cached_tokens: [], bytes: {},
};

const NUMBERS = [
  "time", "decode_tps", "prefill_tps", "running", "waiting", "prompt_tokens", "cached_tokens",
] as const;

/** `columns` with `sample` at the end, without what is older than the plots. A sample that isn't
 * newer than the last one changes nothing. */
export function withSample(columns: Columns, sample: Sample): Columns {
  const last = columns.time.at(-1);
  if (last !== undefined && sample.time <= last) return columns;
  const begin = columns.time.findIndex((time) => time > sample.time - SECONDS);
  const from = begin < 0 ? columns.time.length : begin;
  const n = columns.time.length;
  const names = new Set([...Object.keys(columns.bytes), ...Object.keys(sample.bytes)]);
  const next = { ...NOTHING, bytes: {} as Record<string, number[]> };
  for (const name of NUMBERS) next[name] = [...columns[name].slice(from), sample[name]];
  for (const name of names) {
    // A device that had nothing until now.
    const before = columns.bytes[name] ?? new Array<number>(n).fill(0);
    next.bytes[name] = [...before.slice(from), sample.bytes[name] ?? 0];
  }
  return next;
}

/** The share of prompt tokens that came from the cache in the minute before each second; null
 * where there was no prompt. */
export function cacheShares(columns: Columns): (number | null)[] {
  const { time, prompt_tokens: prompts, cached_tokens: cached } = columns;
  let [begin, nPrompt, nCached] = [0, 0, 0];
  return time.map((at, i) => {
    nPrompt += prompts[i] ?? 0;
    nCached += cached[i] ?? 0;
    while ((time[begin] ?? at) <= at - CACHE_SECONDS) {
      nPrompt -= prompts[begin] ?? 0;
      nCached -= cached[begin] ?? 0;
      begin += 1;
    }
    return nPrompt > 0 ? nCached / nPrompt : null;
  });
}

/** Columns on top of one another, the first at the bottom: the height of each one's upper edge. */
export function stacked(columns: readonly (readonly number[])[]): number[][] {
  const sums: number[] = [];
  return columns.map((column) => column.map((value, i) => (sums[i] = (sums[i] ?? 0) + value)));
}
