import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { answers, box, log, questions, settled } from "./chatting.ts";
import { launch, open } from "./page.ts";
import { serve, type Server } from "./server.ts";

// A model is loaded in a test: on a busy machine it takes minutes.
vi.setConfig({ testTimeout: 500_000 });

let browser: Browser;
let server: Server;

beforeAll(async () => {
  browser = await launch();
  server = await serve(["tiny", "tiny-chat", "--device", "cpu", "--keep-alive", "-1"]);
});

afterAll(async () => {
  await browser?.close();
  await server?.stop();
});

/** More stops than any view has. */
const MOST_STOPS = 120;

const hasFocus = (target: Locator) => target.evaluate((e) => e === document.activeElement);

/** Goes to `target` with the Tab key alone. */
async function tabTo(page: Page, target: Locator): Promise<void> {
  await target.waitFor();
  for (let i = 0; i < MOST_STOPS; i++) {
    if (await hasFocus(target)) return;
    await page.keyboard.press("Tab");
  }
  throw new Error(`the Tab key never gets to ${target}`);
}

/** Goes to `target` and presses `key`. */
async function use(page: Page, target: Locator, key = "Enter"): Promise<void> {
  await tabTo(page, target);
  await page.keyboard.press(key);
}

test("everything can be done without a pointer", async () => {
  const { page, context, faults } = await open(browser, `${server.url}/`);
  page.setDefaultTimeout(100_000);
  const press = (key: string) => page.keyboard.press(key);

  // Chat: send, edit as a branch, back to the first branch.
  await page.getByRole("button", { name: "Model: tiny-chat" }).waitFor();
  await expect.poll(() => hasFocus(box(page))).toBe(true);
  await page.keyboard.type("Hello");
  await press("Enter");
  await answers(page).getByRole("button", { name: "Answer again" }).waitFor();
  await use(page, questions(page).getByRole("button", { name: "Edit" }));
  await expect.poll(() => hasFocus(page.getByRole("textbox", { name: "Edit the message" }))).toBe(true);
  await page.keyboard.type(" again");
  await use(page, page.getByRole("button", { name: "Save and send" }));
  await questions(page).getByText("2/2").waitFor();
  await settled(page);
  await press("Alt+ArrowLeft");
  await questions(page).getByText("1/2").waitFor();

  // A menu opens, is left, and gives the focus back.
  const more = answers(page).getByRole("button", { name: "More" });
  await use(page, more);
  await page.getByRole("menuitem", { name: "Show tokens" }).waitFor();
  await press("Escape");
  await expect.poll(() => hasFocus(more)).toBe(true);

  // The name of a button that has the focus is shown, and Escape takes it away.
  const copy = log(page).getByRole("button", { name: "Copy" }).first();
  await tabTo(page, copy);
  const tip = page.locator("[aria-hidden]", { hasText: /^Copy$/ });
  await tip.waitFor();
  await press("Escape");
  await tip.waitFor({ state: "detached" });

  // Models: the palette leads there; options, loading, unloading.
  await press("Control+k");
  await expect.poll(() => hasFocus(page.getByRole("combobox", { name: "Search" }))).toBe(true);
  await page.keyboard.type("go to models");
  await page.getByRole("option", { name: "Go to Models" }).waitFor();
  await press("Enter");
  await use(page, page.getByRole("link", { name: /^tiny / }));
  const detail = page.getByRole("article", { name: "tiny", exact: true });
  await detail.getByRole("img", { name: /cpu:0: 4 layers/ }).waitFor();
  await use(page, detail.getByRole("slider", { name: "Context" }), "ArrowLeft");
  await detail.getByRole("button", { name: "Context: set. Back to auto" }).waitFor();
  await use(page, detail.getByRole("combobox", { name: "Cache type" }));
  await page.getByRole("option", { name: "f32" }).waitFor();
  await press("End");
  await press("Enter");
  await detail.getByRole("button", { name: "Cache type: set. Back to auto" }).waitFor();
  const state = detail.getByText("loaded", { exact: true });
  if (await state.isVisible()) await use(page, detail.getByRole("button", { name: "Unload" }));
  await use(page, detail.getByRole("button", { name: "Load", exact: true }));
  await state.waitFor();

  // Watch: the log's filter. Settings: a dialog that gives the focus back.
  await use(page, page.getByRole("link", { name: "Watch" }));
  await use(page, page.getByRole("combobox", { name: "Level" }));
  await press("End");
  await press("Enter");
  const settings = page.getByRole("button", { name: "Settings" });
  await use(page, settings);
  await page.getByRole("dialog", { name: "Settings" }).waitFor();
  await press("Escape");
  await expect.poll(() => hasFocus(settings)).toBe(true);
  await context.close();
  expect(faults).toEqual([]);
});

test("with reduced motion nothing moves by itself", async () => {
  const { page, context, faults } = await open(browser, `${server.url}/`, { reducedMotion: "reduce" });
  page.setDefaultTimeout(100_000);
  const moving = () => page.evaluate(() => document.getAnimations().filter((each) =>
    each.playState === "running" && Number(each.effect?.getComputedTiming().duration) > 50).length);
  await page.getByRole("button", { name: "Model: tiny-chat" }).waitFor();
  await page.getByRole("button", { name: "Plan", exact: true }).click();
  expect(await moving()).toBe(0);
  const slider = page.getByRole("slider", { name: "Context" });
  await slider.focus();
  await page.keyboard.press("ArrowLeft");
  expect(await moving()).toBe(0);
  await context.close();
  expect(faults).toEqual([]);
});
