import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { ask } from "./chatting.ts";
import { launch, open } from "./page.ts";
import { serve, type Server } from "./server.ts";

/** The folder that gets the pictures of README.md and the guide; without it none are made. */
const FOLDER = process.env["UNLADEN_PICTURES"] ?? "";

const SIZE = { width: 1280, height: 900 };
/** Milliseconds in which what moves comes to rest. */
const REST_MS = 800;

/** Bytes of each pretended GPU: together they hold a part of the 8B model. */
const MEMORY = "3221225472";

const PYTHON = process.env["PYTHON"] ?? "python3";
const SPARSE = new URL("make_sparse.py", import.meta.url).pathname;

async function chat(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Model: tiny-chat" }).waitFor();
  await page.getByRole("button", { name: "Sampling" }).click();
  await page.getByRole("textbox", { name: "Temperature" }).fill("0");
  await page.getByRole("button", { name: "Close" }).click();
  for (const text of ["Hello! Who are you?", "Tell me a story about a dragon."])
    await ask(page, text);
}

/** A plan before loading: a model that is larger than two GPUs. */
async function plan(page: Page, server: Server): Promise<void> {
  await page.goto(`${server.url}/#/models`);
  await page.getByRole("link", { name: /^swallow-8b/ }).click();
  await page.getByRole("img", { name: /null:1: \d+ layers/ }).waitFor();
  await page.getByText(/fits · /).first().waitFor();
}

async function busy(page: Page, server: Server): Promise<void> {
  await page.goto(`${server.url}/#/watch`);
  for (const n of [1, 3, 2]) {
    const body = { model: "tiny", prompt: "Once upon a time", max_tokens: 400 };
    const send = () => fetch(`${server.url}/v1/completions`, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    });
    const answers = await Promise.all(Array.from({ length: n }, send));
    expect(answers.map((answer) => answer.status)).toEqual(answers.map(() => 200));
    await page.waitForTimeout(3000);
  }
}

test.skipIf(!FOLDER)("pictures of the page", { timeout: 600_000 }, async () => {
  mkdirSync(FOLDER, { recursive: true });
  const folder = mkdtempSync(join(tmpdir(), "unladen-pictures-"));
  const large = join(folder, "swallow-8b-Q4_K_M.gguf");
  execFileSync(PYTHON, [SPARSE, large]);
  const talking = await serve(["tiny", "tiny-chat", "--device", "cpu", "--keep-alive", "-1"]);
  const planning = await serve(["--device", "null:0,null:1,cpu", large],
    { UNLADEN_NULL_MEMORY: MEMORY });
  const browser = await launch();
  for (const colorScheme of ["light", "dark"] as const) {
    const { page, context, faults } = await open(browser, `${talking.url}/`, {
      viewport: SIZE, colorScheme,
    });
    const other = await open(browser, `${planning.url}/`, { viewport: SIZE, colorScheme });
    const picture = async (name: string, of: Page) => {
      await of.mouse.move(0, 0);
      await of.waitForTimeout(REST_MS);
      await of.screenshot({ path: join(FOLDER, `${name}-${colorScheme}.png`) });
    };
    page.setDefaultTimeout(120_000);
    other.page.setDefaultTimeout(120_000);
    await chat(page);
    await picture("chat", page);
    await plan(other.page, planning);
    await picture("plan", other.page);
    await busy(page, talking);
    await picture("watch", page);
    await context.close();
    await other.context.close();
    expect([...faults, ...other.faults]).toEqual([]);
  }
  await browser.close();
  await talking.stop();
  await planning.stop();
  rmSync(folder, { recursive: true });
});
