import { describe, expect, test } from "vitest";
import { sseEvents } from "../../src/api/sse.ts";
import { grow, groups, nothing, type Chunk } from "../../src/store/deltas.ts";

const CHUNKS: Chunk[] = [
  { choices: [{ delta: { content: "" } }] },
  { choices: [{ delta: { reasoning_content: "hm 🤔" } }] },
  { choices: [{ delta: { content: "Grüße, 世界" } }] },
  { choices: [{ delta: { tool_calls: [{ index: 0, id: "x", function: { name: "f", arguments: "" } }] } }] },
  { choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: '{"a":' } }] } }] },
  { choices: [{ delta: { tool_calls: [{ index: 0, function: { arguments: "1}" } }] } }] },
  { choices: [{ delta: {}, finish_reason: "tool_calls" }], timings: { predicted_n: 3 } },
];
const WIRE = new TextEncoder().encode(
  `: ping\n\n${CHUNKS.map((chunk) => `data: ${JSON.stringify(chunk)}\r\n\r\n`).join("")}data: [DONE]\n\n`,
);

function stream(...parts: Uint8Array[]): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const part of parts) controller.enqueue(part);
      controller.close();
    },
  });
}

async function read(...parts: Uint8Array[]): Promise<string[]> {
  const found: string[] = [];
  for await (const event of sseEvents(stream(...parts))) found.push(event.data);
  return found;
}

describe("a stream", () => {
  test("is the same wherever it is cut", async () => {
    const whole = await read(WIRE);
    expect(whole).toHaveLength(CHUNKS.length + 1);
    for (let i = 0; i <= WIRE.length; i++)
      expect(await read(WIRE.slice(0, i), WIRE.slice(i))).toEqual(whole);
    expect(await read(...Array.from(WIRE, (byte) => Uint8Array.of(byte)))).toEqual(whole);
  });

  test("becomes an answer", () => {
    const grown = nothing();
    for (const chunk of CHUNKS) grow(grown, chunk);
    expect(grown).toEqual({
      text: "Grüße, 世界", reasoning: "hm 🤔", calls: [{ id: "x", name: "f", arguments: '{"a":1}' }],
      tokens: [], finish: "tool_calls", timings: { predicted_n: 3 },
    });
  });
});

describe("tokens", () => {
  test("parts of characters are joined", () => {
    const bird = [...new TextEncoder().encode("a🐦b")];
    const tokens = bird.map((byte, i) => ({ bytes: [byte], logprob: -i, top: [] }));
    const found = groups(tokens);
    expect(found.map((group) => group.text)).toEqual(["a", "🐦", "b"]);
    expect(found[1]?.logprob).toBe(-4);
    expect(found[1]?.tokens).toHaveLength(4);
  });

  test("what never becomes a character is shown with a sign", () => {
    const tokens = [0xff, 0x41].map((byte) => ({ bytes: [byte], logprob: 0, top: [] }));
    expect(groups(tokens).map((group) => group.text).join("")).toBe("�A");
  });
});
