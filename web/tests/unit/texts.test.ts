import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { en } from "../../src/texts/en.ts";
import { bytes, dayOf, duration } from "../../src/texts/index.ts";

const SRC = new URL("../../src", import.meta.url).pathname;
const sources = readdirSync(SRC, { recursive: true, encoding: "utf-8" })
  .filter((name) => /\.tsx?$/.test(name) && !name.startsWith("texts"))
  .map((name) => ({ name, text: readFileSync(join(SRC, name), "utf-8") }));

describe("texts", () => {
  test("no component has a text of its own", () => {
    const found = sources.filter(({ name }) => name.endsWith(".tsx")).flatMap(({ name, text }) =>
      [
        // Words between tags, and in attributes that are read out or shown.
        ...text.matchAll(/<\w[^<>]*>\s*([A-Z][a-z]+[^<>{}=;]*)\s*<\//g),
        ...text.matchAll(/\b(?:aria-label|title|placeholder|label|alt)="([^"]+)"/g),
      ].map((hit) => `${name}: ${hit[1]}`),
    );
    expect(found).toEqual([]);
  });

  test("every text is used", () => {
    const all = sources.map(({ text }) => text).join("\n");
    const unused = Object.entries(en).flatMap(([part, texts]) =>
      Object.keys(texts).filter((key) => !new RegExp(`\\bt\\.${part}\\.${key}\\b`).test(all))
        .map((key) => `${part}.${key}`),
    );
    expect(unused).toEqual([]);
  });

  test("no text is empty", () => {
    const waiting: unknown[] = [en];
    let n = 0;
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      if (typeof next === "string") expect(next.trim(), String(++n)).not.toBe("");
      else if (typeof next === "object" && next !== null) waiting.push(...Object.values(next));
    }
    expect(n).toBeGreaterThan(100);
  });

  test("numbers in words", () => {
    expect(bytes(0)).toBe("0 B");
    expect(bytes(8.4 * 2 ** 30)).toBe("8.4 GiB");
    expect(duration(6.04)).toBe("6.0 s");
    expect(duration(125)).toBe("2 min 5 s");
    const now = new Date(2026, 10, 28, 12).getTime();
    expect(dayOf(now, now)).toBe("Today");
    expect(dayOf(now - 86_400_000, now)).toBe("Yesterday");
    expect(dayOf(now - 9 * 86_400_000, now)).toMatch(/2026/);
  });
});
