import { expect, test } from "vitest";
import { lastRate } from "../../../src/plan/measured.ts";

test("only whole busy seconds count", () => {
  expect(lastRate([])).toBeNull();
  expect(lastRate([0, 12, 0])).toBeNull();
  expect(lastRate([0, 12, 30, 0])).toBeNull();
  expect(lastRate([0, 12, 40, 42, 9, 0])).toBe(41);
});

test("the last run counts, also one that goes on", () => {
  expect(lastRate([5, 10, 5, 0, 1, 20, 1])).toBe(20);
  expect(lastRate([5, 10, 5, 0, 7])).toBe(10);
});
