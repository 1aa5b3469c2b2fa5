import type { Code, Root, RootContent } from "mdast";
import { parse } from "./parse.ts";

/** A finished or open piece of a text: one child of its tree. `source` is what it was made of. */
export interface Block {
  node: RootContent;
  source: string;
}

/**
 * Parses a text that grows, each part of it about once.
 *
 * Everything before the last child of the tree is frozen as soon as no later character can change
 * it, and is the same object from then on. Only the rest is parsed again.
 */
export class BlockParser {
  private text = "";
  private stable = 0;
  private readonly frozen: Block[] = [];
  private open: Block[] = [];
  /** Characters that were parsed so far, and the milliseconds that the last call took. */
  parsed = 0;
  cost_ms = 0;

  /** The blocks of `text`, which begins with the text of the last call. */
  update(text: string): readonly Block[] {
    if (!text.startsWith(this.text)) this.reset();
    if (text !== this.text || text === "") {
      this.text = text;
      const begun = performance.now();
      this.advance();
      this.cost_ms = performance.now() - begun;
    }
    return [...this.frozen, ...this.open];
  }

  /**
   * The blocks of the whole text. Only where it has definitions it is parsed once more: links and
   * footnotes find those that came later. Blocks that didn't change are the same objects.
   */
  finish(text: string): readonly Block[] {
    const before = this.update(text);
    if (!hasAny(before, DEFINING)) return before;
    return blocksOf(parse(text), text).map((block, i) => {
      const old = before[i];
      const isSame = old?.source === block.source && old.node.type === block.node.type;
      return isSame && !hasAny([block], REFERRING) ? old : block;
    });
  }

  private reset(): void {
    this.text = "";
    this.stable = 0;
    this.frozen.length = 0;
    this.open = [];
  }

  private advance(): void {
    const rest = this.text.slice(this.stable);
    const fence = openFence(rest);
    if (fence) {
      this.open = [{ node: fence, source: rest }];
      return;
    }
    this.parsed += rest.length;
    const blocks = blocksOf(parse(rest), rest);
    const n = nFrozen(blocks, rest);
    const next = blocks[n];
    this.frozen.push(...blocks.slice(0, n));
    if (n > 0 && next) {
      // From the beginning of the line: the next block may be indented.
      const start = next.node.position?.start.offset ?? 0;
      this.stable += rest.lastIndexOf("\n", start - 1) + 1;
    }
    this.open = blocks.slice(n);
  }
}

/** The children of `root`, with their texts. */
export function blocksOf(root: Root, text: string): Block[] {
  return root.children.map((node) => ({
    node,
    source: text.slice(node.position?.start.offset ?? 0, node.position?.end.offset ?? 0),
  }));
}

/**
 * How many of the first `blocks` can't change any more.
 *
 * A block is finished once the first line of the block after it is: until then that line may turn
 * out to belong to it (`1. x`, an empty line, `2` is a paragraph until its dot comes, and `***`
 * below a paragraph is a rule until a letter follows).
 */
function nFrozen(blocks: readonly Block[], text: string): number {
  for (let i = blocks.length - 1; i > 0; i--) {
    const start = blocks[i]?.node.position?.start.offset;
    // The parser remembers indented code: behind it, `10) x` is no list.
    if (isIndented(blocks[i - 1])) continue;
    // Right below a paragraph `10) a|b` is a table's head; at the beginning of a text it is a list.
    if (blocks[i]?.node.type === "table" && isRightBelow(blocks[i], blocks[i - 1])) continue;
    if (start !== undefined && text.indexOf("\n", start) >= 0) return i;
  }
  return 0;
}

const isRightBelow = (block: Block | undefined, above: Block | undefined): boolean =>
  block?.node.position?.start.line === (above?.node.position?.end.line ?? 0) + 1;

const isIndented = (block: Block | undefined): boolean =>
  block?.node.type === "code" && !/^ {0,3}(`{3}|~{3})/.test(block.source);

/** A fence with at most a plain word behind it: others may have escapes, so they are parsed. */
const OPENING = /^( {0,3})(`{3,}|~{3,}) *([\w+#.-]*) *\n/;

/**
 * `text` as a code block where it begins with a fence that isn't closed yet; else null. So a long
 * program is only appended to, not parsed again and again.
 */
export function openFence(text: string): Code | null {
  const found = OPENING.exec(text);
  if (!found) return null;
  const [first, indent = "", mark = "", lang = ""] = found;
  const closing = new RegExp(`^ {0,3}\\${mark[0] ?? ""}{${mark.length},}[ \\t]*(?:\\n|$)`, "m");
  const body = text.slice(first.length);
  if (closing.test(body)) return null;
  const lines = body.split("\n");
  if (lines.at(-1) === "") lines.pop();
  const margin = new RegExp(`^ {0,${indent.length}}`);
  return {
    type: "code", lang: lang || null, meta: null,
    value: lines.map((line) => line.replace(margin, "")).join("\n"),
  };
}

/** Types of nodes that others, anywhere in the text, refer to. */
export const DEFINING: ReadonlySet<string> = new Set(["definition", "footnoteDefinition"]);

/** Types of nodes that are text where no definition is known. */
const REFERRING: ReadonlySet<string> = new Set([
  "linkReference", "imageReference", "footnoteReference",
]);

/** Whether `blocks` have a node of one of `types`, at any depth. */
export function hasAny(blocks: readonly Block[], types: ReadonlySet<string>): boolean {
  const waiting: unknown[] = blocks.map((block) => block.node);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const node = next as { type: string; children?: unknown[] };
    if (types.has(node.type)) return true;
    waiting.push(...(node.children ?? []));
  }
  return false;
}

/**
 * `text` as it is shown while more comes: marks alone in the last line are the beginning of a
 * fence or its end, and would flicker.
 */
export function shownSoFar(text: string): string {
  const start = text.lastIndexOf("\n") + 1;
  const found = /^[ \t]*(`+|~+)$/.exec(text.slice(start));
  return found?.[1] ? text.slice(0, -found[1].length) : text;
}
