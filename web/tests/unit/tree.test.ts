import { describe, expect, test } from "vitest";
import { newMessage, type Message } from "../../src/store/records.ts";
import {
  anyLeaf, leafBelow, pathTo, remember, siblings, subtree, type Messages,
} from "../../src/store/tree.ts";
import { random } from "./random.ts";

function tree(parents: Record<string, string | null>): Messages {
  const made = Object.entries(parents).map(([id, parent], created): [string, Message] => [
    id, newMessage({ id, parent, created, conversation: "c", role: "user" }),
  ]);
  return new Map(made);
}

const ids = (messages: readonly Message[]) => messages.map((message) => message.id);
const FORKED = tree({ a: null, b: "a", c: "a", d: "b", e: "c", f: null });

describe("tree", () => {
  test("a path goes from the first message to the leaf", () => {
    expect(ids(pathTo(FORKED, "e"))).toEqual(["a", "c", "e"]);
    expect(pathTo(FORKED, null)).toEqual([]);
    expect(pathTo(FORKED, "gone")).toEqual([]);
  });

  test("siblings have the same parent, also no parent, the oldest first", () => {
    expect(ids(siblings(FORKED, "c"))).toEqual(["b", "c"]);
    expect(ids(siblings(FORKED, "f"))).toEqual(["a", "f"]);
  });

  test("another branch goes down to where it was left", () => {
    expect(leafBelow(FORKED, "a", {})).toBe("e");
    expect(leafBelow(FORKED, "a", { a: "b" })).toBe("d");
    expect(remember(FORKED, "d", {})).toEqual({ "": "a", a: "b", b: "d" });
    expect(leafBelow(FORKED, "a", remember(FORKED, "d", {}))).toBe("d");
  });

  test("a subtree is the message and everything below it", () => {
    expect([...subtree(FORKED, "b")].sort()).toEqual(["b", "d"]);
    expect(subtree(FORKED, "a").size).toBe(5);
  });

  test("orphans begin a branch, cycles end", () => {
    const orphan = tree({ a: "gone", b: "a" });
    expect(ids(pathTo(orphan, "b"))).toEqual(["a", "b"]);
    expect(anyLeaf(orphan, {})).toBe("b");
    const cycle = tree({ a: "b", b: "a", c: "c" });
    expect(ids(pathTo(cycle, "a"))).toEqual(["b", "a"]);
    expect(leafBelow(cycle, "a", {})).toBe("b");
    expect(anyLeaf(cycle, {})).not.toBeNull();
    expect([...subtree(cycle, "c")]).toEqual(["c"]);
  });

  test("a long conversation needs no stack", () => {
    const n = 20_000;
    const long = tree(Object.fromEntries(
      Array.from({ length: n }, (_, i) => [`m${i}`, i ? `m${i - 1}` : null]),
    ));
    expect(pathTo(long, `m${n - 1}`)).toHaveLength(n);
    expect(leafBelow(long, "m0", {})).toBe(`m${n - 1}`);
    expect(subtree(long, "m0").size).toBe(n);
  });

  const { next, seed } = random();
  test(`any table of parents gives paths without repeats (seed ${seed})`, () => {
    for (let i = 0; i < 200; i++) {
      const n = 1 + next(12);
      const messages = tree(Object.fromEntries(Array.from({ length: n }, (_, j) => [
        `m${j}`, next(4) ? `m${next(n + 1)}` : null,
      ])));
      for (const id of messages.keys()) {
        const path = ids(pathTo(messages, id));
        expect(new Set(path).size).toBe(path.length);
        expect(path.at(-1)).toBe(id);
        expect(messages.has(leafBelow(messages, id, {}))).toBe(true);
        expect(subtree(messages, id).has(id)).toBe(true);
      }
      expect(anyLeaf(messages, {})).not.toBeNull();
    }
  });
});
