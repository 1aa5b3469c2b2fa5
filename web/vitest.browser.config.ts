import { defineConfig } from "vitest/config";

/** Tests in Debian's Chromium against servers. One file after the other: they share two cores. */
export default defineConfig({
  test: {
    include: ["tests/browser/**/*.test.ts"], environment: "node", fileParallelism: false,
    testTimeout: 180_000, hookTimeout: 400_000,
  },
});
