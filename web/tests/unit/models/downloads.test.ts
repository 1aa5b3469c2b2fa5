import { expect, test } from "vitest";
import type { Download } from "../../../src/api/types.ts";
import {
  actionsOf, downloadOf, nameOf, nUnderWay, secondsLeft, shareOf, withEvent,
} from "../../../src/models/downloads.ts";
import { random } from "../plan/made.ts";

const download = (given: Partial<Download> = {}): Download => ({
  id: "a", ref: "org/repo:Q8_0", state: "running", done: 30, total: 120, rate: 3, error: null,
  created: 1, ...given,
});

test("each state has its actions", () => {
  const all = Object.fromEntries(
    (["queued", "running", "paused", "failed", "done"] as const).map((state) =>
      [state, actionsOf(download({ state }))]));
  expect(all).toEqual({
    queued: ["pause", "remove"], running: ["pause", "remove"], paused: ["resume", "remove"],
    failed: ["resume", "remove"], done: ["remove"],
  });
});

test("events replace, add and delete; the oldest download comes first", () => {
  const first = download();
  const second = download({ id: "b", created: 0 });
  expect(withEvent(withEvent([], first), second)).toEqual([second, first]);
  expect(withEvent([first], { ...first, done: 60 })).toEqual([{ ...first, done: 60 }]);
  expect(withEvent([first, second], { id: "a", state: "deleted" })).toEqual([second]);
  expect(withEvent([], { id: "a", state: "deleted" })).toEqual([]);
});

test("the last event of each download holds, however they are mixed", () => {
  const seed = Date.now();
  const next = random(seed);
  const last = new Map<string, Download>();
  let known: Download[] = [];
  for (let turn = 0; turn < 500; turn++) {
    const id = String(next(8));
    if (next(5) === 0) {
      last.delete(id);
      known = withEvent(known, { id, state: "deleted" });
    } else {
      const event = download({ id, created: Number(id), done: next(1000) });
      last.set(id, event);
      known = withEvent(known, event);
    }
  }
  const expected = [...last.values()].sort((a, b) => a.created - b.created);
  expect(known, `seed ${seed}`).toEqual(expected);
});

test("shares and seconds are told where they are known", () => {
  expect(shareOf(download())).toBe(0.25);
  expect(shareOf(download({ total: 0 }))).toBeNull();
  expect(shareOf(download({ total: 0, state: "done" }))).toBe(1);
  expect(shareOf(download({ done: 130 }))).toBe(1);
  expect(secondsLeft(download())).toBe(30);
  expect(secondsLeft(download({ state: "paused" }))).toBeNull();
  expect(secondsLeft(download({ rate: 0 }))).toBeNull();
});

test("those under way are counted and found", () => {
  const all = [download(), download({ id: "b", ref: "x/y:Q4_0", state: "done" })];
  expect(nUnderWay(all)).toBe(1);
  expect(downloadOf(all, "org/repo:Q8_0")?.id).toBe("a");
  expect(downloadOf(all, "x/y:Q4_0")).toBeUndefined();
  expect(nameOf("org/repo:Q8_0")).toBe("repo:Q8_0");
  expect(nameOf("tiny")).toBe("tiny");
});
