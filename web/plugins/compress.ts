import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** The kinds of files that get smaller. */
const TEXTS = /\.(js|css|html|svg|txt)$/;

/**
 * `text` as gzip without the time and the system that made it, so that two builds are equal:
 * bytes 4 to 7 of the header are the time, byte 9 is the system.
 */
export function packed(text: Uint8Array): Uint8Array {
  const made = gzipSync(text, { level: 9 });
  made.fill(0, 4, 8);
  made[9] = 255;
  return made;
}

/** Writes FILE.gz beside each file of the build. */
export function compress(): Plugin {
  let folder = "";
  return {
    name: "compress",
    apply: "build",
    configResolved(config) {
      folder = resolve(config.root, config.build.outDir);
    },
    closeBundle() {
      for (const name of readdirSync(folder, { recursive: true, encoding: "utf-8" })) {
        const path = join(folder, name);
        if (TEXTS.test(name) && statSync(path).isFile())
          writeFileSync(`${path}.gz`, packed(readFileSync(path)));
      }
    },
  };
}
