import { expect, test } from "vitest";
import type { Line } from "../../../src/api/types.ts";
import { asText, KEPT, shown, withLines, withoutHint } from "../../../src/watch/lines.ts";

const line = (n: number, level = "info", text = `line ${n}`): Line => ({ n, time: n, level, text });

test("lines are kept once, and not too many", () => {
  const known = withLines([line(1), line(2)], [line(2), line(3)]);
  expect(known.map(({ n }) => n)).toEqual([1, 2, 3]);
  const many = withLines([], Array.from({ length: KEPT + 5 }, (_, i) => line(i + 1)));
  expect(many).toHaveLength(KEPT);
  expect(many[0]?.n).toBe(6);
});

test("a level shows itself and what is worse; all words must be there", () => {
  const lines = [line(1, "debug"), line(2), line(3, "warning"), line(4, "error", "Can't load TINY"),
    line(5, "odd")];
  const numbers = (found: Line[]) => found.map(({ n }) => n);
  expect(numbers(shown(lines, "debug", ""))).toEqual([1, 2, 3, 4, 5]);
  expect(numbers(shown(lines, "warning", ""))).toEqual([3, 4, 5]);
  expect(numbers(shown(lines, "info", " tiny load "))).toEqual([4]);
});

test("a hint is told apart from its line", () => {
  expect(withoutHint("no room\non cpu:0 (hint: use less (or more))")).toEqual(
    ["no room\non cpu:0", "use less (or more)"]);
  expect(withoutHint("a (hint: b) c")).toEqual(["a (hint: b) c", ""]);
});

test("copied lines have time, level and text", () => {
  expect(asText([line(60, "error", "x (hint: y)")])).toBe(
    "1970-01-01T00:01:00.000Z error x (hint: y)\n");
});
