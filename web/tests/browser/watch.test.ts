import { type Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { everywhere } from "./everywhere.ts";
import { launch, open, type Watched } from "./page.ts";
import { serve, type Server } from "./server.ts";

// Models are loaded and moved in a test: on a busy machine it takes minutes.
vi.setConfig({ testTimeout: 500_000 });

let browser: Browser;
let server: Server;

/** Milliseconds that a step may take on a busy machine. */
const SLOW = 100_000;

/** Bytes of the pretended device: less than tiny-chat takes. */
const MEMORY = "1000000";

beforeAll(async () => {
  browser = await launch();
  server = await serve(["tiny", "tiny-chat", "--device", "cpu"], { UNLADEN_NULL_MEMORY: MEMORY });
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

async function start(options = {}): Promise<Watched> {
  const watched = await open(browser, `${server.url}/#/watch`, options);
  watched.page.setDefaultTimeout(SLOW);
  return watched;
}

async function post(path: string, body: unknown): Promise<void> {
  const answer = await fetch(`${server.url}${path}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
  });
  await answer.text();
  expect(answer.ok).toBe(true);
}

test("speed, memory, requests and cache are plotted and said", async () => {
  const { page, context, faults } = await start();
  await page.getByRole("heading", { name: "Tokens a second" }).waitFor();
  await expect.poll(() => page.locator("canvas").count(), { timeout: SLOW }).toBe(4);
  const figure = (title: string) => page.getByRole("figure").filter({ hasText: title });
  await figure("Memory of models").getByText(/cpu:0 [\d.]+ MiB/).waitFor();
  const asked = post(
    "/v1/completions", { model: "tiny", prompt: "Once upon a time", max_tokens: 400 });
  await figure("Tokens a second").getByText(/answers [1-9]/).waitFor();
  await figure("Requests").getByText("waiting 0").waitFor();
  await asked;
  await figure("Prompt tokens from the cache").getByText(/in a minute \d+%/).waitFor();
  await page.getByRole("meter", { name: "Memory of cpu:0" }).waitFor();
  await page.getByRole("link", { name: "tiny", exact: true }).waitFor();
  expect(faults).toEqual([]);
  await context.close();
});

test("the log shows an error with its hint; it is filtered, searched and copied", async () => {
  const permissions = ["clipboard-read", "clipboard-write"];
  const { page, context, faults } = await start({ permissions });
  const options = { devices: ["null:0"], n_gpu_layers: "all" };
  await post("/ui/api/models/tiny-chat/load", { options });
  const log = page.getByRole("log");
  await log.getByText(/'tiny-chat' can't be loaded/).waitFor();
  await log.getByText(/^Hint: /).first().waitFor();
  await page.getByRole("listitem").filter({ hasText: "tiny-chat" }).getByText(/null:0/).waitFor();
  expect(await everywhere(page)).toEqual([]);
  await log.getByText(/tiny is loaded in/).waitFor();
  await page.getByRole("combobox", { name: "Level" }).click();
  await page.getByRole("option", { name: "Errors" }).click();
  await log.getByText(/tiny is loaded in/).waitFor({ state: "detached" });
  await page.getByRole("searchbox", { name: "Search the log" }).fill("CAN'T tiny-chat");
  await page.getByRole("button", { name: "Copy" }).click();
  await page.getByText(/lines are copied/).waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  expect(copied).toMatch(/^\d{4}-.*Z error 'tiny-chat' can't be loaded: .*\(hint: /);
  await page.getByRole("searchbox", { name: "Search the log" }).fill("no such words");
  await page.getByText("No line is like that").waitFor();
  expect(faults).toEqual([]);
  await context.close();
});

test("the view is fine everywhere", async () => {
  const { page, context, faults } = await start();
  await expect.poll(() => page.locator("canvas").count(), { timeout: SLOW }).toBe(4);
  await page.getByRole("log").getByText(/loaded/).first().waitFor();
  expect(await everywhere(page)).toEqual([]);
  expect(faults).toEqual([]);
  await context.close();
});
