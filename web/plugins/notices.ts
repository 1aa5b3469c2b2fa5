import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

/** The folder of the package that `file` belongs to; null for files of our own. */
export function packageOf(file: string): string | null {
  const clean = file.replace(/^\0/, "").split("?")[0] ?? "";
  const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(clean);
  return found?.[1] ?? null;
}

/** Name, version, licence and the licence's text of the package in `folder`. */
function notice(folder: string): string {
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf-8")) as {
    name: string;
    version: string;
    license?: string;
  };
  const names = readdirSync(folder).filter((name) => /^(licen[cs]e|notice|ofl)/i.test(name)).sort();
  const texts = names.map((name) => readFileSync(join(folder, name), "utf-8").trim());
  if (!about.license && texts.length === 0) throw new Error(`${about.name} has no licence`);
  return [`${about.name} ${about.version} (${about.license ?? "see below"})`, ...texts].join("\n\n");
}

/** Writes assets/notices.txt: the licences of all packages with code in the build. */
export function notices(): Plugin {
  return {
    name: "notices",
    apply: "build",
    generateBundle(_, bundle) {
      const folders = new Set<string>();
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const [id, module] of Object.entries(chunk.modules)) {
          // What the build left out ships nothing.
          const folder = module.renderedLength > 0 ? packageOf(id) : null;
          if (folder && existsSync(join(folder, "package.json"))) folders.add(folder);
        }
      }
      if (folders.size === 0)
        throw new Error("the build has no packages");
      const source = [...folders]
        .map(notice)
        .sort()
        .join(`\n\n${"-".repeat(78)}\n\n`);
      this.emitFile({
        type: "asset",
        fileName: "assets/notices.txt",
        source: `The page contains code of these packages.\n\n${source}\n`,
      });
    },
  };
}
