import type { Root } from "mdast";
import { fromMarkdown } from "mdast-util-from-markdown";
import { gfmFromMarkdown } from "mdast-util-gfm";
import { mathFromMarkdown } from "mdast-util-math";
import { gfm } from "micromark-extension-gfm";
import { math } from "micromark-extension-math";
import { brackets, bracketsFromMarkdown } from "./brackets.ts";

const extensions = [gfm(), math(), brackets()];
const mdastExtensions = [gfmFromMarkdown(), mathFromMarkdown(), bracketsFromMarkdown];

/** The tree of `text`: CommonMark, GitHub's additions, and maths in dollars or brackets. */
export function parse(text: string): Root {
  return fromMarkdown(text, { extensions, mdastExtensions });
}
