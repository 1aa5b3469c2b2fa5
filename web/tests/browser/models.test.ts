import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { everywhere } from "./everywhere.ts";
import { startHub, type Hub } from "./hub.ts";
import { launch, open, PHONE, type Watched } from "./page.ts";
import { serve, type Server } from "./server.ts";

// Models are loaded and moved in a test: on a busy machine it takes minutes.
vi.setConfig({ testTimeout: 500_000 });

let browser: Browser;
let hub: Hub;
let online: Server;
let offline: Server;
const folder = mkdtempSync(join(tmpdir(), "unladen-models-"));

/** Milliseconds that a step may take on a busy machine. */
const SLOW = 100_000;
/** Seconds between two of the 62 pieces of a file: time enough to pause it. */
const PACE = 0.25;

beforeAll(async () => {
  const config = join(folder, "config.toml");
  writeFileSync(config, "[server]\nallow_any = true\n");
  browser = await launch();
  hub = await startHub(PACE);
  online = await serve(["--config", config, "--device", "cpu"], hub.env);
  offline = await serve(["tiny", "--device", "cpu"]);
});

afterAll(async () => {
  await browser?.close();
  await online?.stop();
  await offline?.stop();
  hub?.stop();
  rmSync(folder, { recursive: true });
});

async function start(server: Server, address: string, options = {}): Promise<Watched> {
  const watched = await open(browser, `${server.url}/#${address}`, options);
  watched.page.setDefaultTimeout(SLOW);
  return watched;
}

const row = (page: Page, ref: string) => page.getByRole("listitem").filter({ hasText: ref });

test("the library says what each model is, whether it fits, and how fast it will be", async () => {
  const { page, context, faults } = await start(offline, "/models");
  const tiny = page.getByRole("link", { name: /^tiny / });
  await tiny.getByText(/fits · on the CPU · ~[\d.,]+ t\/s/).waitFor();
  await tiny.getByText("Q8_0 · 1.95 MiB · llama · 1.87M · comes with unladen").waitFor();
  await page.getByRole("searchbox", { name: "Filter" }).fill("CHAT q8");
  await tiny.waitFor({ state: "detached" });
  await page.getByRole("link", { name: /^tiny-chat / }).waitFor();
  await page.getByRole("searchbox", { name: "Filter" }).fill("nothing");
  await page.getByText("No model has “nothing” in its name").waitFor();
  await page.getByRole("tab", { name: "Hub" }).click();
  await page.getByText("The server is offline").waitFor();
  await page.goto(`${offline.url}/#/models/no%2Fsuch`);
  await page.getByText("No model is called “no/such”").waitFor();
  expect(await everywhere(page)).toEqual([]);
  expect(faults).toEqual([]);
  await context.close();
});

test("a model that the server doesn't serve can be looked at, not loaded", async () => {
  const { page, context, faults } = await start(offline, "/models/tiny-chat");
  await page.getByText("This server only serves the models that it was started with.").waitFor();
  await page.getByRole("img", { name: /cpu:0: 5 layers/ }).waitFor();
  expect(await page.getByRole("button", { name: "Load" }).count()).toBe(0);
  expect(faults).toEqual([]);
  await context.close();
});

test("a model of the hub is judged, downloaded, paused, resumed, loaded", async () => {
  const { page, context, faults } = await start(online, "/models");
  await page.getByRole("tab", { name: "Hub" }).click();
  await page.getByRole("searchbox", { name: "Search the hub" }).fill("repo");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^org\/repo / }).waitFor();
  expect(await everywhere(page)).toEqual([]);
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: /^org\/other / }).waitFor();
  await page.getByRole("button", { name: /^org\/repo / }).click();
  await row(page, "m-Q8_0.gguf").getByText("Q8_0 · 1.95 MiB").waitFor();
  await row(page, "m-Q8_0.gguf").getByText(/fits · on the CPU/).waitFor();
  expect(await everywhere(page)).toEqual([]);
  await page.getByRole("button", { name: "Download m-Q8_0.gguf" }).click();
  await page.getByRole("tab", { name: "Downloads 1" }).click();
  const mine = row(page, "org/repo:Q8_0");
  await mine.getByText(/^downloading · .* of 1.95 MiB/).waitFor();
  await mine.getByRole("button", { name: "Pause repo:Q8_0" }).click();
  await mine.getByText(/^paused · .* of 1.95 MiB$/).waitFor();
  expect(await everywhere(page)).toEqual([]);

  await page.reload();
  await page.getByRole("tab", { name: "Downloads 1" }).click();
  await mine.getByText(/^paused · /).waitFor();
  const share = Number(await mine.getByRole("progressbar").getAttribute("aria-valuenow"));
  expect(share).toBeLessThan(100);
  await mine.getByRole("button", { name: "Resume repo:Q8_0" }).click();
  await mine.getByText("done · 1.95 MiB").waitFor();
  await mine.getByRole("link", { name: "Open" }).click();
  const detail = page.getByRole("article", { name: "org/repo:Q8_0" });
  await detail.getByRole("img", { name: /cpu:0: 4 layers/ }).waitFor();
  await detail.getByRole("button", { name: "Load" }).click();
  await detail.getByText("loaded", { exact: true }).waitFor();
  await detail.getByRole("button", { name: "Unload" }).click();
  await detail.getByRole("button", { name: "Load" }).waitFor();
  await mine.getByRole("button", { name: "Remove repo:Q8_0 from this list" }).click();
  await page.getByText("No downloads").waitFor();
  expect(faults).toEqual([]);
  await context.close();
});

test("a download that is removed half-way asks first", async () => {
  const { page, context, faults } = await start(online, "/models");
  await page.getByRole("tab", { name: "Hub" }).click();
  await page.getByRole("searchbox", { name: "Search the hub" }).fill("repo");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: /^org\/repo / }).click();
  await page.getByRole("button", { name: "Download m-Q4_K_M.gguf" }).click();
  await page.getByRole("tab", { name: "Downloads 1" }).click();
  const mine = row(page, "org/repo:Q4_K_M");
  await mine.getByText(/^downloading · [1-9].* of /).waitFor();
  await mine.getByRole("button", { name: "Pause repo:Q4_K_M" }).click();
  await mine.getByText(/^paused · /).waitFor();
  await mine.getByRole("button", { name: "Remove repo:Q4_K_M" }).click();
  const question = page.getByRole("dialog", { name: "Remove the download?" });
  await question.getByText(/repo:Q4_K_M that have arrived are deleted/).waitFor();
  await question.getByRole("button", { name: "Remove" }).click();
  await page.getByText("No downloads").waitFor();
  expect(faults).toEqual([]);
  await context.close();
});

test("the library and a model's page are fine everywhere; a phone shows one of them", async () => {
  const { page, context, faults } = await start(offline, "/models");
  await page.getByText(/fits · /).first().waitFor();
  expect(await everywhere(page)).toEqual([]);
  await page.getByRole("link", { name: /^tiny / }).click();
  await page.getByRole("img", { name: /cpu:0/ }).waitFor();
  expect(await everywhere(page)).toEqual([]);
  await page.setViewportSize(PHONE);
  await page.getByRole("link", { name: /^tiny / }).waitFor({ state: "hidden" });
  await page.getByRole("link", { name: "All models" }).click();
  await page.getByRole("link", { name: /^tiny / }).waitFor();
  expect(faults).toEqual([]);
  await context.close();
});
