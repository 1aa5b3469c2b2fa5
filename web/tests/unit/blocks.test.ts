import { describe, expect, test } from "vitest";
import { BlockParser, blocksOf, DEFINING, hasAny, openFence, shownSoFar } from "../../src/chat/markdown/blocks.ts";
import { parse } from "../../src/chat/markdown/parse.ts";
import { random } from "./random.ts";

/** Pieces of which random documents are made: what begins, ends and interrupts blocks. */
const PIECES = [
  "a", "b c", "1. x", "2", "- y", "* z", "+ w", "\n", "\n\n", "\n", "  ", "    ", "\t", "***", "---",
  "===", "> q", "# h", "```", "```js", "~~~", "`", "``", "|", "a|b\n-|-\n", "|x|y|", "<b>", "<!--",
  "-->", "$$", "$x$", "\\(", "\\)", "\\[", "\\]", "**b**", "_i_", "[l](http://x)", "- [ ] t", "10) n",
  "é", "🙂", ".", "\\", "<div>\n", "</div>", "~~s~~", "http://a.b",
];

/** Random texts; each is parsed at about 15 lengths. */
const N_TEXTS = Number(process.env["UNLADEN_TEXTS"] ?? 150);

/** What a block shows, without positions, which count from where the parser last began. */
function bare(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(bare);
  if (typeof node !== "object" || node === null) return node;
  return Object.fromEntries(
    Object.entries(node).filter(([name, value]) => name !== "position" && value !== null)
      .map(([name, value]) => [name, bare(value)]),
  );
}

const whole = (text: string) => blocksOf(parse(text), text);

describe("blocks", () => {
  const { next, pick, seed } = random();

  test(`any split of a text ends in the tree of the whole (seed ${seed})`, () => {
    let nParsed = 0;
    let nWhole = 0;
    for (let i = 0; i < N_TEXTS; i++) {
      const text = Array.from({ length: 3 + next(16) }, () => pick(PIECES)).join("");
      // Definitions and footnotes change blocks before them: the end parses them again.
      if (hasAny(whole(text), DEFINING)) continue;
      const parser = new BlockParser();
      for (let at = 0; at < text.length; ) {
        at += 1 + next(4);
        parser.update(text.slice(0, at));
        nWhole += Math.min(at, text.length);
      }
      nParsed += parser.parsed;
      const found = parser.update(text).map((block) => bare(block.node));
      expect(found, JSON.stringify(text)).toEqual(whole(text).map((block) => bare(block.node)));
    }
    expect(nParsed).toBeLessThan(nWhole);
  });

  test("a table's head below a paragraph is no list", () => {
    const text = "a\n10) b|c\n-|-\n1|2\n\nend\n\n";
    const parser = new BlockParser();
    for (let at = 0; at < text.length; at++) parser.update(text.slice(0, at));
    expect(parser.finish(text).map(({ node }) => node.type)).toEqual(["paragraph", "table", "paragraph"]);
  });

  test(`the end is the tree of the whole, whatever defines what (seed ${seed})`, () => {
    const more = ["[a]", "[^1]", "[a]: http://x\n", "[^1]: note\n", "![i][a]", "\n\n[A]: b\n\n"];
    for (let i = 0; i < N_TEXTS; i++) {
      const text = Array.from({ length: 3 + next(16) }, () => pick([...PIECES, ...more])).join("");
      const parser = new BlockParser();
      for (let at = 0; at < text.length; at += 1 + next(4)) parser.update(text.slice(0, at));
      const found = parser.finish(text).map((block) => bare(block.node));
      expect(found, JSON.stringify(text)).toEqual(whole(text).map((block) => bare(block.node)));
    }
  });

  test("the end is the tree of the whole, with definitions and footnotes", () => {
    const text = "See [a] and[^1].\n\nMore\n\n[a]: http://x\n[^1]: note\n";
    const parser = new BlockParser();
    for (let at = 0; at <= text.length; at++) parser.update(text.slice(0, at));
    const found = parser.finish(text).map((block) => bare(block.node));
    expect(found).toEqual(whole(text).map((block) => bare(block.node)));
  });

  test("a finished block stays the same object until the end, and after it", () => {
    const text = "first\n\n1. one\n2. two\n\nlast line\nof all";
    const parser = new BlockParser();
    const first = parser.update(text.slice(0, 14))[0];
    expect(parser.update(text)[0]).toBe(first);
    const before = [...parser.update(text)];
    expect(parser.finish(text)).toEqual(before);
    expect(parser.finish(text)[1]).toBe(before[1]);
  });

  test("a long answer is parsed about once", () => {
    const text = Array.from({ length: 80 }, (_, i) =>
      i % 8 === 0 ? "```py\nfor i in range(3):\n    print(i)\n```\n" : `Word ${i} and some more of it.\n`,
    ).join("\n");
    const parser = new BlockParser();
    for (let at = 0; at < text.length; at += 4) parser.update(text.slice(0, at));
    expect(parser.parsed).toBeLessThan(text.length * 20);
  });

  test("an open fence is the code so far", () => {
    for (const text of ["```py\na = 1\n", "```py\na = 1", "~~~\nx\n```\ny", "  ```\n  a\n b",
      "```\n\n"]) {
      const [found] = whole(text);
      expect(bare(openFence(text)), text).toEqual(bare(found?.node));
    }
    for (const text of ["```py", "```a`\nb", "```\na\n```", "```\na\n````", "x\n```\n", "``` a b\nc"])
      expect(openFence(text), text).toBeNull();
  });

  test("marks alone in the last line aren't shown yet", () => {
    expect(shownSoFar("a\n```")).toBe("a\n");
    expect(shownSoFar("`")).toBe("");
    expect(shownSoFar("a `b`")).toBe("a `b`");
    expect(shownSoFar("a\n  ~~")).toBe("a\n  ");
    expect(shownSoFar("a\n```js")).toBe("a\n```js");
  });
});

describe("maths", () => {
  /** The maths of a text's first paragraph. */
  const maths = (text: string) => {
    const [first] = parse(text).children;
    return first?.type === "paragraph"
      ? first.children.flatMap((node) =>
          (node.type as string) === "inlineMath" ? [(node as { value: string }).value] : [])
      : [];
  };

  test("dollars and brackets", () => {
    expect(maths("a $x$ and \\(y^2\\), \\[z\\]")).toEqual(["x", "y^2", "z"]);
    expect(maths("\\[\n\\frac{a}{b}\n\\]")).toEqual(["\n\\frac{a}{b}\n"]);
    expect(maths("\\(a\\\\)\\) b")).toEqual(["a\\\\)"]);
    expect(maths("\\(*a* and *b*\\)")).toEqual(["*a* and *b*"]);
  });

  test("what is no maths", () => {
    expect(maths("`\\(x\\)`")).toEqual([]);
    expect(maths("\\\\(x\\\\)")).toEqual([]);
    expect(maths("\\(x")).toEqual([]);
    expect(maths("\\(x\n\ny\\)")).toEqual([]);
  });
});
