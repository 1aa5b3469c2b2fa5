import type * as M from "mdast";
import type { InlineMath, Math } from "mdast-util-math";
import { Fragment, memo, type ReactNode } from "react";
import { t } from "../../texts/index.ts";
import type { Block } from "./blocks.ts";
import { CodeBlock } from "./CodeBlock.tsx";
import css from "./markdown.module.css";
import { MathView } from "./MathView.tsx";

/** What the nodes of a block need of the rest of their text. */
interface Around {
  source: string;
  start: number;
  definitions: ReadonlyMap<string, M.Definition>;
  live: boolean;
}

const NONE: ReadonlyMap<string, M.Definition> = new Map();

/** A text's blocks as elements. `live`: more comes. */
export const Blocks = memo(function Blocks(props: { blocks: readonly Block[]; live?: boolean }) {
  const { blocks, live = false } = props;
  const definitions = definitionsOf(blocks);
  return (
    <div className={css.text}>
      {blocks.map((block, i) => (
        <OneBlock
          key={i} block={block} definitions={definitions} live={live && i === blocks.length - 1}
        />
      ))}
    </div>
  );
});

function definitionsOf(blocks: readonly Block[]): ReadonlyMap<string, M.Definition> {
  const found = blocks.flatMap(({ node }) =>
    node.type === "definition" ? [[node.identifier, node] as const] : [],
  );
  return found.length ? new Map(found) : NONE;
}

interface OneBlockProps {
  block: Block;
  definitions: ReadonlyMap<string, M.Definition>;
  live: boolean;
}

/** A frozen block is the same object each time, so it isn't drawn again. */
const OneBlock = memo(function OneBlock({ block, definitions, live }: OneBlockProps) {
  const start = block.node.position?.start.offset ?? 0;
  if (block.node.type === "html") return <p className={css.html}>{block.node.value}</p>;
  return drawn(block.node, { source: block.source, start, definitions, live }, 0);
});

function all(nodes: readonly M.Nodes[], around: Around): ReactNode {
  return nodes.map((node, i) => drawn(node, around, i));
}

function drawn(node: M.Nodes, around: Around, key: number): ReactNode {
  const kind = node.type as string;
  if (kind === "math") return <MathView key={key} tex={(node as Math).value} display />;
  if (kind === "inlineMath") return maths(node as InlineMath, around, key);
  switch (node.type) {
    case "text": return <Fragment key={key}>{node.value}</Fragment>;
    case "paragraph": return <p key={key}>{all(node.children, around)}</p>;
    case "emphasis": return <em key={key}>{all(node.children, around)}</em>;
    case "strong": return <strong key={key}>{all(node.children, around)}</strong>;
    case "delete": return <del key={key}>{all(node.children, around)}</del>;
    case "inlineCode": return <code key={key} className={css.code}>{node.value}</code>;
    case "break": return <br key={key} />;
    case "thematicBreak": return <hr key={key} />;
    case "blockquote": return <blockquote key={key}>{all(node.children, around)}</blockquote>;
    case "heading": return heading(node, around, key);
    case "list": return list(node, around, key);
    case "table": return table(node, around, key);
    case "code":
      return <CodeBlock key={key} text={node.value} lang={node.lang ?? ""} live={around.live} />;
    // The page shows HTML as the text that it is.
    case "html": return <Fragment key={key}>{node.value}</Fragment>;
    case "link": return link(node.url, all(node.children, around), key);
    case "linkReference": {
      const definition = around.definitions.get(node.identifier);
      const inner = all(node.children, around);
      return definition ? link(definition.url, inner, key) : <Fragment key={key}>{inner}</Fragment>;
    }
    case "image": return image(node.url, node.alt ?? "", key);
    case "imageReference":
      return image(around.definitions.get(node.identifier)?.url ?? "", node.alt ?? "", key);
    case "footnoteReference": return <sup key={key}>{node.label ?? node.identifier}</sup>;
    case "footnoteDefinition":
      return (
        <div key={key} className={css.footnote}>
          <sup>{node.label ?? node.identifier}</sup>
          <div>{all(node.children, around)}</div>
        </div>
      );
    default: return null;
  }
}

/** Headings of an answer stand below the heading of its message. */
function heading(node: M.Heading, around: Around, key: number): ReactNode {
  const Level = (["h3", "h4", "h5", "h6", "h6", "h6"] as const)[node.depth - 1] ?? "h6";
  return <Level key={key} data-depth={node.depth}>{all(node.children, around)}</Level>;
}

function list(node: M.List, around: Around, key: number): ReactNode {
  const items = node.children.map((item, i) => {
    // A list without empty lines shows its texts without the space of paragraphs.
    const inner = item.children.map((child, j) =>
      child.type === "paragraph" && !node.spread && !item.spread ? (
        <Fragment key={j}>{all(child.children, around)}</Fragment>
      ) : (
        drawn(child, around, j)
      ),
    );
    if (typeof item.checked !== "boolean") return <li key={i}>{inner}</li>;
    return (
      <li key={i} className={css.task}>
        <span role="img" aria-label={item.checked ? t.chat.done : t.chat.notDone}>
          {item.checked ? "☑" : "☐"}
        </span>{" "}
        {inner}
      </li>
    );
  });
  if (!node.ordered) return <ul key={key}>{items}</ul>;
  return <ol key={key} start={node.start ?? 1}>{items}</ol>;
}

function table(node: M.Table, around: Around, key: number): ReactNode {
  const cells = (row: M.TableRow, Cell: "td" | "th") =>
    row.children.map((cell, i) => (
      <Cell key={i} data-align={node.align?.[i] ?? undefined}>{all(cell.children, around)}</Cell>
    ));
  const [head, ...body] = node.children;
  return (
    <div key={key} className={css.table} tabIndex={0} role="region" aria-label={t.chat.table}>
      <table>
        {head && <thead><tr>{cells(head, "th")}</tr></thead>}
        <tbody>{body.map((row, i) => <tr key={i}>{cells(row, "td")}</tr>)}</tbody>
      </table>
    </div>
  );
}

/** Addresses of other kinds, such as `javascript:`, are no links. */
export function isSafe(url: string): boolean {
  return /^(https?:|mailto:)/i.test(url.trim());
}

function link(url: string, inner: ReactNode, key: number): ReactNode {
  if (!isSafe(url)) return <Fragment key={key}>{inner}</Fragment>;
  return <a key={key} href={url} target="_blank" rel="noopener noreferrer">{inner}</a>;
}

/** The page asks no other host for pictures: it shows their words and where they are. */
function image(url: string, alt: string, key: number): ReactNode {
  if (/^data:image\/(png|jpeg|gif|webp|avif);/i.test(url))
    return <img key={key} src={url} alt={alt} className={css.image} />;
  return link(url, alt || url, key);
}

/**
 * `$5 and $10` are prices: a dollar begins maths where no space follows it, and ends it where no
 * space is before and no digit behind it.
 */
function maths(node: InlineMath, around: Around, key: number): ReactNode {
  const from = (node.position?.start.offset ?? 0) - around.start;
  const to = (node.position?.end.offset ?? 0) - around.start;
  const raw = around.source.slice(from, to);
  const isPrice =
    /^\$(?!\$)/.test(raw) && (/^\$\s|\s\$$/.test(raw) || /\d/.test(around.source[to] ?? ""));
  if (isPrice) return <Fragment key={key}>{raw}</Fragment>;
  return <MathView key={key} tex={node.value} display={/^(\$\$|\\\[)/.test(raw)} />;
}
