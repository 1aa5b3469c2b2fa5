import { type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { everywhere } from "./everywhere.ts";
import { launch, open, type Watched } from "./page.ts";
import { serve, type Server } from "./server.ts";

// Models are loaded and moved in a test: on a busy machine it takes minutes.
vi.setConfig({ testTimeout: 500_000 });

let browser: Browser;
let server: Server;

/** Bytes of the pretended device: two layers of tiny-chat fit beside those that move away, all five
 * with a cache of float32 don't. */
const MEMORY = "13000000";

beforeAll(async () => {
  browser = await launch();
  server = await serve(
    ["tiny", "tiny-chat", "--device", "null:0,cpu", "--n-gpu-layers", "0", "--keep-alive", "-1"],
    { UNLADEN_NULL_MEMORY: MEMORY },
  );
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** Milliseconds that a step may take on a busy machine: a model is loaded in some of them. */
const SLOW = 100_000;

async function start(address: string, options = {}): Promise<Watched> {
  const watched = await open(browser, `${server.url}/#${address}`, options);
  watched.page.setDefaultTimeout(SLOW);
  return watched;
}

/** The picture; its name says what it shows. */
const picture = (page: Page, text: RegExp) => page.getByRole("img", { name: text });

/** The message `text` of the conversation, also behind the panel. */
const said = (page: Page, text: string) => page.locator("article", { hasText: text }).first();

/** Moves the slider `name` with the keyboard: to its beginning, then `n` steps. */
async function slide(page: Page, name: string, n: number): Promise<void> {
  await page.getByRole("slider", { name }).focus();
  await page.keyboard.press("Home");
  for (let i = 0; i < n; i++) await page.keyboard.press("ArrowRight");
}

/** More than the pretended device holds. */
async function wishTooMuch(page: Page): Promise<void> {
  await slide(page, "Layers on GPUs", 5);
  await slide(page, "Context", 0);
  await page.keyboard.press("End");
  await page.getByRole("combobox", { name: "Cache type" }).click();
  await page.getByRole("option", { name: "f32" }).click();
}

const isLoaded = (page: Page) =>
  page.getByRole("article", { name: "tiny-chat" }).getByText("loaded", { exact: true }).waitFor();

async function openModel(options = {}): Promise<Watched> {
  const watched = await start("/models/tiny-chat", options);
  await picture(watched.page, /tiny-chat|chat\.gguf/).waitFor();
  return watched;
}

test("a model that doesn't fit says so before and after loading; another plan goes", async () => {
  const { page, context, faults } = await openModel();
  await wishTooMuch(page);
  await page.getByText(/It doesn't fit: null:0 lacks [\d.]+ [KM]iB/).waitFor();
  await picture(page, /null:0: 5 layers, [\d.]+ [KM]iB too much/).waitFor();
  expect(await everywhere(page)).toEqual([]);
  await page.getByRole("button", { name: "Load" }).click();
  const alert = page.getByRole("alert").filter({ hasText: "null:0" });
  await alert.getByText(/^Hint: .*n_gpu_layers/).waitFor();
  expect(await everywhere(page)).toEqual([]);
  await page.getByRole("button", { name: "Cache type: set. Back to auto" }).click();
  await slide(page, "Layers on GPUs", 0);
  await picture(page, /null:0: 0 layers, .* left/).waitFor();
  await page.getByRole("button", { name: "Load" }).click();
  await isLoaded(page);
  await page.getByText("It is in memory with these options.").waitFor();
  await page.getByText(/planned [\d.]+ MiB · in memory [\d.]+ MiB/).first().waitFor();
  expect(faults).toEqual([]);
  await context.close();
});

test("a conversation goes on while layers and context of its model change", async () => {
  const { page, context, faults } = await start("/chat");
  await page.getByRole("button", { name: /^Model/ }).getByText("tiny-chat").waitFor();
  const box = page.getByRole("textbox", { name: /message/i });
  await box.fill("Say something");
  await page.keyboard.press("Enter");
  await page.getByText(/\d tokens\/s/).first().waitFor();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  const panel = page.getByRole("dialog", { name: "Plan: tiny-chat" });
  await panel.getByText(/tokens\/s measured/).first().waitFor();
  await slide(page, "Layers on GPUs", 2);
  await slide(page, "Context", 3);
  await picture(page, /null:0: 2 layers.*cpu:0: 3 layers/).waitFor();
  await panel.getByText("Conversations go on where they are.").waitFor();
  expect(await everywhere(page)).toEqual([]);
  await panel.getByRole("button", { name: "Apply" }).click();
  await panel.getByText("It is in memory with these options.").waitFor();
  await panel.getByText("not measured yet").first().waitFor();
  const slider = page.getByRole("slider", { name: "Layers on GPUs" });
  expect(await slider.getAttribute("aria-valuetext")).toBe("2 of 5");
  await said(page, "Say something").waitFor();

  await wishTooMuch(page);
  await panel.getByText(/It doesn't fit: null:0 lacks/).waitFor();
  await panel.getByRole("button", { name: "Apply" }).click();
  const alert = panel.getByRole("alert").filter({ hasText: "null:0" });
  await alert.getByText(/out of memory/i).waitFor();
  await alert.getByText(/stays as it was: 2 layers on null:0, 3 layers on cpu:0/).waitFor();
  expect(await everywhere(page)).toEqual([]);

  await page.getByRole("button", { name: "Cache type: set. Back to auto" }).click();
  await slide(page, "Layers on GPUs", 0);
  await panel.getByRole("button", { name: "Apply" }).click();
  await panel.getByText("It is in memory with these options.").waitFor();
  await page.keyboard.press("Escape");
  await box.fill("And more");
  await page.keyboard.press("Enter");
  await said(page, "And more").waitFor();
  await page.getByRole("button", { name: /stop/i }).waitFor({ state: "detached" });
  await said(page, "Say something").waitFor();
  expect(faults).toEqual([]);
  await context.close();
});

test("an older request is given up; the last picture stays until the next is there", async () => {
  const { page, context, faults } = await openModel();
  const asked: string[] = [];
  const givenUp: string[] = [];
  await page.route("**/ui/api/plan", async (route) => {
    asked.push(route.request().postData() ?? "");
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await route.continue().catch(() => undefined);
  });
  page.on("requestfailed", (request) => {
    if (request.url().endsWith("/ui/api/plan")) givenUp.push(request.postData() ?? "");
  });
  await slide(page, "Layers on GPUs", 1);
  await expect.poll(() => asked.length).toBe(1);
  expect(await picture(page, /null:0: 0 layers/).isVisible()).toBe(true);
  await page.keyboard.press("ArrowRight");
  await picture(page, /null:0: 2 layers/).waitFor();
  expect(givenUp).toEqual([asked[0]]);
  expect(faults).toEqual([]);
  await context.close();
});

test("every option and the tables are fine everywhere", async () => {
  const { page, context, faults } = await openModel();
  await page.getByText("More options").click();
  await page.getByText("The same as tables").click();
  await page.getByRole("table", { name: "Bytes by device" }).waitFor();
  expect(await everywhere(page)).toEqual([]);
  expect(faults).toEqual([]);
  await context.close();
});
