import { blocksOf, type Block } from "./blocks.ts";
import { parse } from "./parse.ts";

/** How many texts stay parsed. Rows that come into view again need no new parse. */
const MOST = 300;

const parsed = new Map<string, { text: string; blocks: readonly Block[] }>();

/** The blocks of the whole `text` with the name `id`. */
export function blocksFor(id: string, text: string): readonly Block[] {
  const known = parsed.get(id);
  if (known?.text === text) return known.blocks;
  const blocks = blocksOf(parse(text), text);
  keepBlocks(id, text, blocks);
  return blocks;
}

/** Keeps `blocks`, so that an answer that has just ended keeps its elements. */
export function keepBlocks(id: string, text: string, blocks: readonly Block[]): void {
  parsed.delete(id);
  parsed.set(id, { text, blocks });
  const oldest = parsed.keys().next();
  if (parsed.size > MOST && !oldest.done) parsed.delete(oldest.value);
}
