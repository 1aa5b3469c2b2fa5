import { describe, expect, test } from "vitest";
import { problemOf } from "../../src/api/problem.ts";
import { rowsOf } from "../../src/chat/rows.ts";
import { newConversation, newMessage } from "../../src/store/records.ts";
import { requestBody, SettingError, withFiles, wrongJson } from "../../src/store/request.ts";

const base = { conversation: "c", parent: null };
const PATH = [
  newMessage({ ...base, role: "user", text: "hi", blobs: [{ hash: "h", name: "a.md", bytes: 9 }] }),
  newMessage({ ...base, role: "assistant", text: "", reasoning: "hm", tool_calls: [
    { id: "1", name: "f", arguments: "" }] }),
  newMessage({ ...base, role: "tool", text: "42", tool_call_id: "1" }),
];
const FILES = new Map([["h", "text\n```\ncode\n```\n"]]);

describe("request", () => {
  test("what is shown is what is sent", () => {
    const conversation = {
      ...newConversation("c"), system: "Be short.", sampler: { temperature: 0, stop: [] },
      tools: [{ name: "f", description: "d", parameters: "" }], schema: '{"type": "object"}',
      probabilities: true, thinking: "low" as const,
    };
    const asking = { conversation, model: "tiny", path: PATH, files: FILES, continues: true };
    expect(requestBody(asking)).toEqual({
      model: "tiny", stream: true, stream_options: { include_usage: true }, temperature: 0,
      continue_final_message: true, logprobs: true, top_logprobs: 5, reasoning_effort: "low",
      tools: [{ type: "function", function: {
        name: "f", description: "d", parameters: { type: "object", properties: {} } } }],
      response_format: {
        type: "json_schema", json_schema: { name: "answer", schema: { type: "object" } } },
      messages: [
        { role: "system", content: "Be short." },
        { role: "user", content: "a.md\n````\ntext\n```\ncode\n```\n````\n\nhi" },
        { role: "assistant", content: "", reasoning_content: "hm", tool_calls: [
          { id: "1", type: "function", function: { name: "f", arguments: "{}" } }] },
        { role: "tool", content: "42", tool_call_id: "1" },
      ],
    });
  });

  test("a file alone is a message", () => {
    const [question] = PATH;
    expect(question && withFiles({ ...question, text: "" }, FILES)).toMatch(/^a\.md\n````/);
  });

  test("a tool without a name is said before anything is sent", () => {
    const conversation = {
      ...newConversation("c"), tools: [{ name: "", description: "", parameters: "" }],
    };
    expect(() => requestBody(
      { conversation, model: "tiny", path: [], files: new Map(), continues: false },
    )).toThrow(SettingError);
  });

  test("a schema that can't be read is said before anything is sent", () => {
    expect(wrongJson("{")).not.toBe("");
    expect(wrongJson("[]")).not.toBe("");
    expect(wrongJson("")).toBe("");
    expect(wrongJson('{"a": 1}')).toBe("");
  });
});

describe("rows", () => {
  test("results stand with the answer that asked for them", () => {
    const rows = rowsOf(PATH);
    expect(rows).toHaveLength(2);
    expect(rows[1]?.results.get("1")?.text).toBe("42");
    const [first, , result] = PATH;
    expect(first && result && rowsOf([first, result])).toHaveLength(2);
  });
});

describe("problems", () => {
  test("of both shapes have their hint", () => {
    expect(problemOf({ error: { message: "a (hint: b (c))", code: "x" } }, 400))
      .toEqual({ code: "x", message: "a", hint: "b (c)", param: "" });
    expect(problemOf({ error: { code: "y", message: "m", hint: "h", param: "p" } }, 400))
      .toEqual({ code: "y", message: "m", hint: "h", param: "p" });
    expect(problemOf(null, 502).message).toBe("HTTP 502");
  });
});
