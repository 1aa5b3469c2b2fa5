import { describe, expect, test } from "vitest";
import { readImport } from "../../src/store/imports.ts";
import { newConversation, newMessage } from "../../src/store/records.ts";
import { pathTo } from "../../src/store/tree.ts";
import { random } from "./random.ts";

/** The shown branch of the first conversation. */
function shown(given: unknown): string[] {
  const { conversations, messages } = readImport(given);
  const all = new Map(messages.map((message) => [message.id, message]));
  return pathTo(all, conversations[0]?.leaf ?? null).map((each) => `${each.role}: ${each.text}`);
}

const OWN = (() => {
  const conversation = { ...newConversation("c"), title: "T", leaf: "b", model: "tiny" };
  const messages = [
    newMessage({ id: "a", conversation: "c", parent: null, role: "user", text: "hi" }),
    newMessage({ id: "b", conversation: "c", parent: "a", role: "assistant", text: "one" }),
    newMessage({ id: "d", conversation: "c", parent: "a", role: "assistant", text: "two",
      status: "streaming" }),
  ];
  return {
    format: "unladen-chat/1", conversations: [conversation], messages, blobs: { h: "file" },
    probabilities: { b: [{ bytes: [104], logprob: -1, top: [] }] },
  };
})();

describe("import", () => {
  test("of an own file keeps all branches, under new ids", () => {
    const made = readImport(JSON.parse(JSON.stringify(OWN)));
    expect(made.messages.map((each) => each.text)).toEqual(["hi", "one", "two"]);
    expect(made.messages.map((each) => each.id)).not.toContain("a");
    expect(made.messages[2]?.parent).toBe(made.messages[0]?.id);
    expect(made.messages[2]?.status).toBe("stopped");
    expect(made.conversations[0]).toMatchObject({ title: "T", model: "tiny" });
    expect(made.blobs).toEqual({ h: "file" });
    expect(Object.keys(made.probabilities)).toEqual([made.messages[1]?.id]);
    expect(shown(OWN)).toEqual(["user: hi", "assistant: one"]);
  });

  test("of llama.cpp's file", () => {
    const given = [{
      conv: { id: "x", name: "Birds", currNode: "3", lastModified: 1 },
      messages: [
        { id: "0", type: "root", parent: null, role: "system", content: "", children: ["1"] },
        { id: "1", type: "text", parent: "0", role: "user", content: "hi", timestamp: 1 },
        { id: "2", parent: "1", role: "assistant", content: "old", timestamp: 2 },
        { id: "3", parent: "1", role: "assistant", content: "new", thinking: "hm", timestamp: 3 },
      ],
    }];
    expect(shown(given)).toEqual(["user: hi", "assistant: new"]);
    expect(readImport(given).conversations[0]?.title).toBe("Birds");
    expect(readImport(given).messages.at(-1)?.reasoning).toBe("hm");
  });

  test("of Open WebUI's file", () => {
    const given = [{
      id: "x", title: "Trip", chat: {
        history: {
          currentId: "b", messages: {
            a: { id: "a", parentId: null, role: "user", content: "go", timestamp: 1700000000 },
            b: { id: "b", parentId: "a", role: "assistant", content: "ok", timestamp: 1700000001 },
          },
        },
      },
    }];
    expect(shown(given)).toEqual(["user: go", "assistant: ok"]);
    expect(readImport(given).conversations[0]?.updated).toBe(1700000001000);
  });

  test("of a plain list, with a system message", () => {
    const given = [
      { role: "system", content: "Be short." },
      { role: "user", content: [{ type: "text", text: "hi" }, { type: "image_url" }] },
      { role: "assistant", content: null, tool_calls: [
        { id: "1", function: { name: "f", arguments: "{}" } }] },
      { role: "tool", content: "42", tool_call_id: "1" },
    ];
    expect(shown(given)).toEqual(["user: hi", "assistant: ", "tool: 42"]);
    expect(shown({ messages: given })).toEqual(shown(given));
    expect(readImport(given).conversations[0]?.system).toBe("Be short.");
  });

  test("of something else says so", () => {
    for (const given of [null, 3, "x", [], {}, { messages: [] }, [{ role: "system" }], [[1]]])
      expect(() => readImport(given), JSON.stringify(given)).toThrow("no conversation");
  });

  const { next, pick, seed } = random();
  test(`any damage ends in a list or in that error (seed ${seed})`, () => {
    const values = [null, 1, "b", "c", [], {}, [null], true];
    for (let i = 0; i < 500; i++) {
      const damaged = JSON.parse(JSON.stringify(OWN)) as Record<string, Record<string, unknown>[]>;
      for (let j = 0; j < 4; j++) {
        const list = damaged[pick(["messages", "conversations"])];
        const record = list?.[next(list.length)];
        if (record) record[pick(Object.keys(record))] = pick(values);
      }
      const { conversations, messages } = readImport(damaged);
      const all = new Map(messages.map((message) => [message.id, message]));
      for (const each of conversations) {
        for (const message of pathTo(all, each.leaf)) expect(typeof message.text).toBe("string");
        expect(typeof each.title).toBe("string");
      }
    }
  });
});
