import { expect, test } from "vitest";
import type { Sample } from "../../../src/api/types.ts";
import { cacheShares, NOTHING, SECONDS, stacked, withSample } from "../../../src/watch/samples.ts";

const sample = (time: number, given: Partial<Sample> = {}): Sample => ({
  time, decode_tps: 0, prefill_tps: 0, running: 0, waiting: 0, prompt_tokens: 0, cached_tokens: 0,
  bytes: {}, ...given,
});

test("samples come to the end, the oldest leave, and no sample counts twice", () => {
  let columns = NOTHING;
  for (let time = 1; time <= SECONDS + 50; time++)
    columns = withSample(columns, sample(time, { decode_tps: time }));
  columns = withSample(columns, sample(SECONDS + 50, { decode_tps: -1 }));
  expect(columns.time).toHaveLength(SECONDS);
  expect(columns.time[0]).toBe(51);
  expect(columns.decode_tps.at(-1)).toBe(SECONDS + 50);
});

test("columns keep one length, also of a device that comes later", () => {
  let columns = withSample(NOTHING, sample(1, { bytes: { cpu: 5 } }));
  columns = withSample(columns, sample(2, { bytes: { gpu: 7 } }));
  expect(columns.bytes).toEqual({ cpu: [5, 0], gpu: [0, 7] });
  columns = withSample(columns, sample(2 + SECONDS, { bytes: {} }));
  expect(columns.bytes).toEqual({ cpu: [0], gpu: [0] });
});

test("the share of cached tokens is that of a minute", () => {
  const columns = [
    sample(0, { prompt_tokens: 100, cached_tokens: 0 }), sample(30),
    sample(59, { prompt_tokens: 300, cached_tokens: 200 }), sample(61), sample(125),
  ].reduce(withSample, NOTHING);
  expect(cacheShares(columns)).toEqual([0, 0, 0.5, 200 / 300, null]);
});

test("columns are stacked", () => {
  expect(stacked([[1, 2], [10, 20], [100, 200]])).toEqual([[1, 2], [11, 22], [111, 222]]);
  expect(stacked([])).toEqual([]);
});
