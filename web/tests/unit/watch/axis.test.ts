import { expect, test } from "vitest";
import { marksOf, minutesFor } from "../../../src/watch/axis.ts";

test("a plot grows with its samples, up to ten minutes", () => {
  expect([0, 119, 121, 500, 599, 4000].map(minutesFor)).toEqual([2, 2, 4, 10, 10, 10]);
});

test("marks are whole minutes from now to the beginning", () => {
  expect(marksOf(2, false)).toEqual([0, 1, 2]);
  expect(marksOf(10, false)).toEqual([0, 2, 4, 6, 8, 10]);
  expect(marksOf(6, true)).toEqual([0, 3, 6]);
});
