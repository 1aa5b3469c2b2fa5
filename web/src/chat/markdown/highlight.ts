import type { ElementContent, RootContent } from "hast";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";
import { createElement, type ReactNode } from "react";

const lowlight = createLowlight({
  bash, c, cpp, csharp, css, diff, go, ini, java, javascript, json, kotlin, php, python, ruby,
  rust, sql, swift, typescript, xml, yaml,
});
lowlight.registerAlias({ bash: ["console", "shell", "zsh"], ini: ["toml"] });

export interface Coloured {
  /** The text that `nodes` shows. */
  text: string;
  nodes: ReactNode;
}

/** `text` in the colours of `lang`; null where the language isn't known. */
export function colour(text: string, lang: string): Coloured | null {
  const name = lang.toLowerCase();
  if (!lowlight.registered(name)) return null;
  return { text, nodes: elements(lowlight.highlight(name, text).children) };
}

function elements(nodes: readonly (RootContent | ElementContent)[]): ReactNode[] {
  return nodes.map((node, i) => {
    if (node.type === "text") return node.value;
    if (node.type !== "element") return null;
    const names = node.properties["className"];
    const className = Array.isArray(names) ? names.join(" ") : undefined;
    return createElement("span", { key: i, className }, ...elements(node.children));
  });
}
