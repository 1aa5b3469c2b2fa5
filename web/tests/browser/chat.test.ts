import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { answers, ask, box, log, questions, say, setSchema, settled, until } from "./chatting.ts";
import { axe, launch, open, watch, type Watched } from "./page.ts";
import { POLICY } from "./scripted.ts";
import { serve, type Server } from "./server.ts";

let browser: Browser;
let server: Server;
let at: Watched;

beforeAll(async () => {
  browser = await launch();
  server = await serve(["tiny-chat", "--keep-alive", "-1", "--allow-host", "chat.test"]);
});
afterAll(async () => {
  await browser.close();
  await server.stop();
});
beforeEach(async () => {
  at = await open(browser, `${server.url}/`, { refused: true });
  await at.page.getByRole("button", { name: "Model: tiny-chat" }).waitFor();
});
afterEach(async () => {
  await at.context.close();
  expect(at.faults).toEqual([]);
});

/** A form that takes some hundred tokens: the answer can be stopped in its middle. */
const LONG = { type: "array", minItems: 90, maxItems: 90, items: { type: "integer" } };

/** The processes that the server has started. */
const workers = (): number[] =>
  execFileSync("pgrep", ["-P", String(server.process.pid)], { encoding: "utf-8" })
    .trim().split("\n").map(Number);

describe("with a real server", () => {
  test("the policy is the one of the other tests, and a packed file is the file", async () => {
    const response = await fetch(server.url);
    expect(response.headers.get("content-security-policy")).toBe(POLICY);
    expect(response.headers.get("x-content-type-options")).toBe("nosniff");
    const script = /src="\.\/(assets\/[^"]+)"/.exec(await response.text())?.[1];
    const hashes = [];
    for (const encoding of ["gzip", "identity"]) {
      const file = await fetch(`${server.url}/${script}`, { headers: { "Accept-Encoding": encoding } });
      hashes.push(createHash("sha256").update(await file.text()).digest("hex"));
    }
    expect(hashes[0]).toBe(hashes[1]);
  });

  test("chat, and a reload loses nothing", async () => {
    expect(await axe(at.page)).toEqual([]);
    const text = await ask(at.page, "Hello, who are you?");
    expect(text).toMatch(/tokens/);
    await box(at.page).fill("a draft");
    await at.page.waitForTimeout(600);
    await at.page.reload();
    await answers(at.page).getByRole("button", { name: "Answer again" }).waitFor();
    expect(await answers(at.page).innerText()).toBe(text);
    await until(async () => (await box(at.page).inputValue()) === "a draft", "the draft is back");
    expect(await axe(at.page)).toEqual([]);
  });

  test("stop in the middle, then continue; a schema gives JSON", async () => {
    await setSchema(at.page, LONG);
    await say(at.page, "Numbers, please");
    await log(at.page).getByText("[", { exact: false }).first().waitFor();
    await box(at.page).press("Escape");
    await at.page.getByText("You stopped this answer.").waitFor();
    expect(await axe(at.page)).toEqual([]);
    const before = await answers(at.page).locator("p").first().innerText();
    expect(before).toMatch(/^\[/);
    await setSchema(at.page, { type: "integer" });
    await answers(at.page).getByRole("button", { name: "Continue" }).first().click();
    await settled(at.page);
    expect(await answers(at.page).innerText()).toContain(before.slice(0, 8));
  });

  test("edit and branch", async () => {
    await ask(at.page, "Hello");
    await questions(at.page).getByRole("button", { name: "Edit" }).click();
    await at.page.getByRole("textbox", { name: "Edit the message" }).fill("Goodbye");
    await at.page.getByRole("button", { name: "Save and send" }).click();
    await questions(at.page).getByText("Goodbye").waitFor();
    await answers(at.page).getByRole("button", { name: "Answer again" }).waitFor();
    await answers(at.page).getByRole("button", { name: "Answer again" }).click();
    await answers(at.page).getByText("2/2").waitFor();
    await settled(at.page);
    await questions(at.page).getByRole("button", { name: "Branch before" }).click();
    await questions(at.page).getByText("Hello").waitFor();
    await at.page.reload();
    await questions(at.page).getByText("Hello").waitFor();
    await questions(at.page).getByText("1/2").waitFor();
  });

  test("two tabs show the same, and one of them writes", async () => {
    await ask(at.page, "Hello");
    const other = await watch(at.context, server.url);
    await other.page.goto(at.page.url());
    await questions(other.page).getByText("Hello").waitFor();
    await setSchema(at.page, LONG);
    await say(at.page, "More");
    await questions(other.page).getByText("More").waitFor();
    await settled(at.page);
    const last = answers(at.page).nth(1);
    await last.getByRole("button", { name: "Answer again" }).waitFor();
    const theirs = answers(other.page).nth(1);
    await theirs.getByRole("button", { name: "Answer again" }).waitFor();
    expect(await theirs.innerText()).toBe(await last.innerText());
    expect(await other.page.getByText("interrupted").count()).toBe(0);
    expect(other.faults).toEqual([]);
  });

  test("a worker that is killed in the middle leaves the text; asking again works", async () => {
    await setSchema(at.page, LONG);
    await say(at.page, "Numbers, please");
    await log(at.page).getByText("[", { exact: false }).first().waitFor();
    for (const pid of workers()) process.kill(pid, "SIGKILL");
    const problem = answers(at.page).getByRole("alert");
    await problem.waitFor();
    expect(await answers(at.page).locator("p").first().innerText()).toMatch(/^\[/);
    expect(await axe(at.page)).toEqual([]);
    await setSchema(at.page, { type: "integer" });
    await problem.getByRole("button", { name: "Try again" }).click();
    await answers(at.page).getByText("2/2").waitFor();
    await settled(at.page);
    expect(await answers(at.page).getByRole("alert").count()).toBe(0);
    await answers(at.page).getByRole("button", { name: "Branch before" }).click();
    await answers(at.page).getByRole("alert").waitFor();
  });

  test("probabilities of tokens, by keyboard", async () => {
    await at.page.getByRole("button", { name: "Sampling" }).click();
    await at.page.getByRole("switch", { name: "Ask for the probabilities of tokens" }).click();
    await at.page.getByRole("button", { name: "Close" }).click();
    await ask(at.page, "Hello");
    const text = await answers(at.page).locator("p").first().innerText();
    await answers(at.page).getByRole("button", { name: "More" }).click();
    await at.page.getByRole("menuitem", { name: "Show tokens" }).click();
    const tokens = answers(at.page).getByRole("group", { name: "Show tokens" });
    await tokens.waitFor();
    expect((await tokens.innerText()).trim()).toBe(text.trim());
    await tokens.getByRole("button").first().focus();
    await at.page.keyboard.press("ArrowRight");
    expect(await tokens.getByRole("button").nth(1).getAttribute("aria-pressed")).toBe("true");
    await answers(at.page).getByRole("region", { name: "Alternatives" }).getByText("%").first().waitFor();
    expect(await axe(at.page)).toEqual([]);
  });
});

test("8: over plain http from another name, copying and ids work", async () => {
  const mapped = await launch(["--host-resolver-rules=MAP chat.test 127.0.0.1"]);
  const far = await open(mapped, `http://chat.test:${server.port}/`);
  const { page } = far;
  expect(await page.evaluate(() => isSecureContext)).toBe(false);
  await page.getByRole("button", { name: "Model: tiny-chat" }).waitFor();
  await ask(page, "line one\nline two");
  await questions(page).getByRole("button", { name: "Copy" }).click();
  await questions(page).getByRole("button", { name: "Copied" }).waitFor();
  await box(page).focus();
  await page.keyboard.press("Control+v");
  expect(await box(page).inputValue()).toBe("line one\nline two");
  await mapped.close();
  expect(far.faults).toEqual([]);
});

test("a key is asked for, and taken from the address", async () => {
  const locked = await serve(["tiny-chat", "--keep-alive", "-1"], { UNLADEN_KEY: "sk-secret" });
  const first = await open(browser, `${locked.url}/`, { refused: true });
  await first.page.getByRole("textbox", { name: "Key" }).fill("wrong");
  expect(await axe(first.page)).toEqual([]);
  await first.page.getByRole("button", { name: "Continue" }).click();
  await first.page.getByText("doesn't know this key").waitFor();
  await first.page.getByRole("textbox", { name: "Key" }).fill("sk-secret");
  await first.page.getByRole("button", { name: "Continue" }).click();
  await first.page.getByRole("button", { name: "Model: tiny-chat" }).waitFor();
  const second = await open(browser, `${locked.url}/#key=sk-secret`);
  await second.page.getByRole("button", { name: "Model: tiny-chat" }).waitFor();
  expect(second.page.url()).not.toContain("secret");
  expect(await second.page.evaluate(() => document.cookie)).toBe("");
  await first.context.close();
  await second.context.close();
  await locked.stop();
  expect([...first.faults, ...second.faults]).toEqual([]);
});
