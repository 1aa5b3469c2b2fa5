import react from "@vitejs/plugin-react";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { compress } from "./plugins/compress.ts";
import { notices } from "./plugins/notices.ts";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  // Relative addresses: the page also works below a path of another server.
  base: "./",
  plugins: [react(), notices(), compress()],
  resolve: {
    alias: {
      // Its file for browsers decodes entities through innerHTML, which Trusted Types refuse.
      "decode-named-character-reference": here(
        "node_modules/decode-named-character-reference/index.js",
      ),
    },
  },
  build: {
    outDir: here("../src/unladen/ui"),
    emptyOutDir: true,
    target: "es2023",
    sourcemap: false,
    // The policy allows no script and no font that is written into another file.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 800,
  },
  server: {
    proxy: Object.fromEntries(
      ["/ui/api", "/v1", "/tokenize"].map((path) => [
        path,
        { target: process.env["UNLADEN_SERVER"] ?? "http://127.0.0.1:8080", changeOrigin: true },
      ]),
    ),
  },
});
