import type { Browser } from "playwright-core";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newConversation, newMessage } from "../../src/store/records.ts";
import { answers, ask, box, log, questions, say, settled, until } from "./chatting.ts";
import { axe, launch, open, PHONE, type Watched } from "./page.ts";
import { scripted, type Script, type Scripted } from "./scripted.ts";
import { work, type Work } from "./work.ts";

let browser: Browser;
let server: Scripted;
let at: Watched;

beforeAll(async () => {
  browser = await launch();
  server = await scripted();
});
afterAll(async () => {
  await browser.close();
  await server.stop();
});
beforeEach(async () => {
  server.asked.length = 0;
  at = await open(browser, `${server.url}/`);
});
afterEach(async () => {
  await at.context.close();
  expect(at.faults).toEqual([]);
});

/** `text` a few characters at a time, as tokens come. */
const tokens = (text: string, name = "content"): object[] =>
  (text.match(/[\s\S]{1,4}/g) ?? []).map((part) => ({ [name]: part }));

/** A file with a conversation of `n` messages, with code and lists as answers have them. */
function longExport(n: number): Buffer {
  const conversation = { ...newConversation("c"), title: "Long", leaf: `m${n - 1}` };
  const messages = Array.from({ length: n }, (_, i) => newMessage({
    id: `m${i}`, conversation: "c", parent: i ? `m${i - 1}` : null, created: i + 1,
    role: i % 2 ? "assistant" : "user",
    text: i % 2
      ? `Answer ${i} with **words**.\n\n- one\n- two\n\n\`\`\`py\nfor i in range(${i}):\n    print(i)\n\`\`\`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n`
      : `Question ${i}`,
  }));
  return Buffer.from(JSON.stringify({
    format: "unladen-chat/1", conversations: [conversation], messages, blobs: {}, probabilities: {},
  }));
}

async function importLong(n: number): Promise<void> {
  await at.page.locator('input[accept*="json"]').setInputFiles({
    name: "long.json", mimeType: "application/json", buffer: longExport(n),
  });
  await at.page.getByRole("link", { name: "Long" }).waitFor();
}

/** Starts to note the gaps between frames. */
const noteFrames = () => at.page.evaluate(() => {
  const state = globalThis as unknown as { gaps: number[] };
  state.gaps = [];
  let last = performance.now();
  const frame = (now: number) => {
    state.gaps.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
});
const longestGap = () => at.page.evaluate(() =>
  Math.max(...(globalThis as unknown as { gaps: number[] }).gaps.slice(1)));

/** On a machine that does nothing else clocks count; elsewhere the page's own work does. */
const isQuiet = process.env["UNLADEN_QUIET"] === "1";

/** Runs `run` and gives the page's work, which costs time itself; null where clocks count. */
async function worked(run: () => Promise<unknown>): Promise<Work | null> {
  if (!isQuiet) return work(at.page, run);
  await run();
  return null;
}

const told = (done: Work | null): string => done
  ? `tasks of ${done.sum_ms.toFixed(0)} ms, the longest ${done.longest_ms.toFixed(0)} ms` : "quiet";

describe("complaints", () => {
  test("1: a long conversation opens with only what is seen in the document", async () => {
    await importLong(500);
    let opened = 0;
    const done = await worked(async () => {
      opened = await at.page.evaluate(async () => {
        const link = [...document.querySelectorAll("a")].find((a) => a.textContent === "Long");
        const begun = performance.now();
        link?.click();
        while (!document.querySelector('[data-row="499"] pre'))
          await new Promise((resolve) => requestAnimationFrame(resolve));
        return performance.now() - begun;
      });
    });
    console.log(`500 messages opened in ${opened.toFixed(0)} ms; ${told(done)}`);
    expect(done ? done.sum_ms : opened).toBeLessThan(300);
    expect(await at.page.locator("[data-row]").count()).toBeLessThan(40);
    // Rows get their sizes in the first frames.
    await until(
      () => log(at.page).evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight < 2), "the end");
    await log(at.page).focus();
    await at.page.keyboard.press("Home");
    await at.page.getByText("Question 0", { exact: true }).waitFor();
    expect(await at.page.locator("[data-row]").count()).toBeLessThan(40);
  });

  test("2: 2,000 tokens at 200 a second after 500 messages; thoughts are folded", async () => {
    await importLong(500);
    await at.page.getByRole("link", { name: "Long" }).click();
    await at.page.locator('[data-row="499"]').waitFor();
    const part = "Some **words** of an answer, with `code` and more of it.\n\n- a\n- b\n\n" +
      "| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nfor i in range(3):\n    print(i)\n```\n\n";
    const text = part.repeat(100).slice(0, 4 * 1500);
    server.play({ deltas: [...tokens("thought ".repeat(250), "reasoning_content"), ...tokens(text)], every_ms: 5 });
    await noteFrames();
    const done = await worked(async () => {
      await say(at.page, "go");
      await at.page.getByRole("button", { name: /^Thinking/ }).waitFor();
      expect(await log(at.page).getByText("thought thought").count()).toBe(0);
      await settled(at.page);
    });
    const gap = await longestGap();
    console.log(`longest gap between frames ${gap.toFixed(0)} ms; ${told(done)}`);
    expect(done ? done.longest_ms : gap).toBeLessThan(50);
    await at.page.getByRole("button", { name: /^Thought for/ }).click();
    await log(at.page).getByText("thought thought").waitFor();
  });

  test("3: an answer moves nobody who reads above it, not even at its end", async () => {
    await importLong(60);
    await at.page.getByRole("link", { name: "Long" }).click();
    await at.page.locator('[data-row="59"]').waitFor();
    server.play({ deltas: tokens("word ".repeat(400)), every_ms: 8 });
    await say(at.page, "go");
    await at.page.getByRole("button", { name: "Stop" }).waitFor();
    const near = () => log(at.page).evaluate((e) => e.scrollHeight - e.scrollTop - e.clientHeight < 40);
    await until(near, "the end is followed");
    await log(at.page).hover();
    await at.page.mouse.wheel(0, -900);
    await at.page.waitForTimeout(400);
    // Where a row that is read stands in the view, not the scroll offset: rows above may get sizes.
    const place = () => at.page.evaluate(() => {
      const view = document.querySelector("[role=log]")!.getBoundingClientRect();
      const row = [...document.querySelectorAll<HTMLElement>("[data-row]")]
        .find((e) => e.getBoundingClientRect().bottom > view.top + 60)!;
      return { row: row.dataset["row"], top: Math.round(row.getBoundingClientRect().top) };
    });
    const before = await place();
    await settled(at.page);
    await at.page.waitForTimeout(300);
    expect(await place()).toEqual(before);
    await at.page.getByRole("button", { name: "Latest" }).click();
    await until(near, "the end is shown");
  });

  test("3: what somebody unfolds stays where it is", async () => {
    server.play(
      { deltas: tokens("line\n\n".repeat(40)) },
      { deltas: [...tokens("thought ".repeat(300), "reasoning_content"), { content: "short" }] },
    );
    await ask(at.page, "first");
    await ask(at.page, "second");
    const head = at.page.getByRole("button", { name: /^Thought for/ });
    const top = () => head.evaluate((e) => Math.round(e.getBoundingClientRect().top));
    await at.page.waitForTimeout(300);
    const before = await top();
    await head.click();
    await log(at.page).getByText("thought thought").waitFor();
    await at.page.waitForTimeout(300);
    expect(await top()).toBe(before);
  });

  test("4: finished blocks keep their elements and the selection; an open fence is text", async () => {
    const text = "First words.\n\n```py\nprint(1)\n```\n\nThen more words, and many of them follow here.\n\nEnd";
    server.play({ deltas: tokens(text), every_ms: 60 });
    await say(at.page, "go");
    const first = log(at.page).locator("p", { hasText: "First words." });
    await first.waitFor();
    await first.evaluate((e) => {
      (e as unknown as { mark: number }).mark = 7;
      getSelection()?.selectAllChildren(e);
    });
    await log(at.page).locator("pre").waitFor();
    await settled(at.page);
    expect(await first.evaluate((e) => (e as unknown as { mark?: number }).mark)).toBe(7);
    expect(await at.page.evaluate(() => getSelection()?.toString())).toBe("First words.");
    await log(at.page).locator("pre .hljs-built_in, pre .hljs-title").first().waitFor();
    expect(await log(at.page).innerText()).not.toContain("```");
  });

  test("5: drafts survive a reload and another chat; what was sent is no draft", async () => {
    await box(at.page).fill("half a thought");
    await at.page.waitForTimeout(600);
    await at.page.reload();
    await until(async () => (await box(at.page).inputValue()) === "half a thought", "draft is back");
    await ask(at.page, "hello");
    await box(at.page).fill("second");
    await at.page.getByRole("link", { name: "New chat" }).click();
    await until(async () => (await box(at.page).inputValue()) === "", "a new chat has its own box");
    await at.page.getByRole("link", { name: "hello" }).click();
    await until(async () => (await box(at.page).inputValue()) === "second", "its draft is back");
  });

  test("5: without space the text stays in the box", async () => {
    await until(() => box(at.page).isEditable(), "ready");
    await at.page.evaluate(() => {
      IDBObjectStore.prototype.put = () => {
        throw new DOMException("full", "QuotaExceededError");
      };
    });
    await say(at.page, "keep me");
    await at.page.getByRole("alert").filter({ hasText: "no space left" }).first().waitFor();
    expect(await box(at.page).inputValue()).toBe("keep me");
    expect(server.asked).toEqual([]);
  });

  test("6: editing keeps what follows; sending makes a branch; what is shown is sent", async () => {
    server.play({ deltas: [{ content: "one" }] }, { deltas: [{ content: "two" }] },
      { deltas: [{ content: "three" }] });
    await ask(at.page, "a");
    await ask(at.page, "b");
    const first = questions(at.page).first();
    await first.getByRole("button", { name: "Edit" }).click();
    await at.page.getByRole("textbox", { name: "Edit the message" }).fill("a2");
    await at.page.getByRole("button", { name: "Save", exact: true }).click();
    await first.getByText("a2").waitFor();
    expect(await answers(at.page).count()).toBe(2);
    // An answer, too.
    await answers(at.page).first().getByRole("button", { name: "Edit" }).click();
    await at.page.getByRole("textbox", { name: "Edit the message" }).fill("ONE");
    await at.page.getByRole("button", { name: "Save", exact: true }).click();
    await questions(at.page).nth(1).getByRole("button", { name: "Edit" }).click();
    await at.page.getByRole("textbox", { name: "Edit the message" }).fill("b2");
    await at.page.getByRole("button", { name: "Save and send" }).click();
    await answers(at.page).nth(1).getByText("three").waitFor();
    expect(server.asked.at(-1)?.messages).toEqual([
      { role: "user", content: "a2" }, { role: "assistant", content: "ONE" },
      { role: "user", content: "b2" },
    ]);
    await log(at.page).getByRole("button", { name: "Branch before" }).click();
    await answers(at.page).nth(1).getByText("two").waitFor();
    await box(at.page).press("Alt+ArrowRight");
    await answers(at.page).nth(1).getByText("three").waitFor();
    expect(await axe(at.page)).toEqual([]);
  });

  test("7: another chat may be opened while an answer is written", async () => {
    server.play({ deltas: tokens("word ".repeat(120)), every_ms: 10 }, { deltas: [{ content: "short" }] });
    await say(at.page, "long one");
    await at.page.getByRole("button", { name: "Stop" }).waitFor();
    await at.page.getByRole("link", { name: "New chat" }).click();
    expect(await ask(at.page, "other")).toContain("short");
    await at.page.getByRole("link", { name: "long one" }).click();
    await answers(at.page).getByRole("button", { name: "Answer again" }).waitFor();
    expect((await answers(at.page).innerText()).match(/word/g)).toHaveLength(120);
  });

  test("7: an answer that was cut by a reload is kept, and goes on", async () => {
    server.play({ deltas: tokens("begin ".repeat(300)), every_ms: 20 }, { deltas: [{ content: " END" }] });
    await say(at.page, "go");
    await log(at.page).getByText("begin").first().waitFor();
    await at.page.waitForTimeout(1200);
    await at.page.reload();
    await at.page.getByText("This answer was interrupted").waitFor();
    expect(await answers(at.page).innerText()).toContain("begin");
    expect(await axe(at.page)).toEqual([]);
    await answers(at.page).getByRole("alert").getByRole("button", { name: "Continue" }).click();
    await log(at.page).getByText("END").waitFor();
    expect(server.asked.at(-1)).toMatchObject({ continue_final_message: true });
  });

  test("9: export of everything, import elsewhere", async () => {
    await importLong(6);
    await at.page.getByRole("button", { name: "Import and export" }).click();
    const download = at.page.waitForEvent("download");
    await at.page.getByRole("menuitem", { name: "Export all conversations" }).click();
    const path = await (await download).path();
    const other = await open(browser, `${server.url}/`);
    await other.page.locator('input[accept*="json"]').setInputFiles(path);
    await other.page.getByRole("link", { name: "Long" }).click();
    await other.page.getByText("Answer 5").waitFor();
    await other.context.close();
    expect(other.faults).toEqual([]);
  });

  test("10: a screen reader hears one line, and switches say their state", async () => {
    expect(await log(at.page).count()).toBe(0);
    server.play({ deltas: tokens("one two three", "content"), every_ms: 50 });
    await ask(at.page, "go");
    expect(await log(at.page).getAttribute("aria-live")).toBe("off");
    const lines = at.page.locator("[role=status]");
    await until(async () => (await lines.allInnerTexts()).includes("Answer finished: 3 words"), "said");
    expect(await box(at.page).evaluate((e) => e === document.activeElement)).toBe(true);
    expect(await log(at.page).getByRole("heading", { level: 2 }).count()).toBe(2);
  });
});

const RICH: Script = {
  deltas: tokens([
    "# Title", "Text with $x^2$, \\(y\\) and prices $5 and $10.", "\\[\n\\frac{a}{b}\n\\]",
    "$$\n\\sum_i i\n$$", "HTML <b>no</b> & &amp; <script>alert(1)</script>",
    "[bad](javascript:alert(1)) [good](https://example.org) ![pic](https://example.org/a.png)",
    "| a | b |\n|:--|--:|\n| 1 | 2 |", "- [x] done\n- [ ] open", "> quote", "```js\nconst a = 1;\n```",
    "Foot[^1] and [ref].", "[^1]: note", "[ref]: https://example.org/ref",
  ].join("\n\n")),
};

describe("texts", () => {
  test("maths, code, tables and HTML as text, without a policy event", async () => {
    server.play(RICH);
    await ask(at.page, "go");
    await until(async () => (await log(at.page).locator("math").count()) === 4, "four formulas");
    await log(at.page).locator(".hljs-keyword").waitFor();
    const text = await answers(at.page).innerText();
    expect(text).toContain("HTML <b>no</b> & & <script>alert(1)</script>");
    expect(text).toContain("$5 and $10");
    const links = await answers(at.page).locator("a").evaluateAll((all) =>
      all.map((a) => [a.getAttribute("href"), a.getAttribute("rel")]));
    expect(links).toEqual([
      ["https://example.org", "noopener noreferrer"],
      ["https://example.org/a.png", "noopener noreferrer"],
      ["https://example.org/ref", "noopener noreferrer"],
    ]);
    expect(await answers(at.page).locator("script, img, b").count()).toBe(0);
    expect(await axe(at.page)).toEqual([]);
  });

  test("tools: the call is shown, its result is given back", async () => {
    await at.page.getByRole("button", { name: "Tools" }).click();
    await at.page.getByRole("button", { name: "Add a tool" }).click();
    await at.page.getByRole("textbox", { name: "Name" }).fill("weather");
    expect(await axe(at.page)).toEqual([]);
    await at.page.getByRole("button", { name: "Close" }).click();
    server.play(
      {
        deltas: [
          { tool_calls: [{ index: 0, id: "c1", function: { name: "weather", arguments: "" } }] },
          { tool_calls: [{ index: 0, function: { arguments: '{"city": "Rome"}' } }] },
        ],
        finish: "tool_calls",
      },
      { deltas: [{ content: "It rains." }] },
    );
    await say(at.page, "weather?");
    await at.page.getByRole("textbox", { name: "Result of weather" }).fill("rain");
    expect(await axe(at.page)).toEqual([]);
    await at.page.getByRole("button", { name: "Send the result" }).click();
    await log(at.page).getByText("It rains.").waitFor();
    expect(server.asked[0]).toMatchObject({ tools: [{ function: { name: "weather" } }] });
    expect(server.asked[1]?.messages.at(-1)).toEqual(
      { role: "tool", content: "rain", tool_call_id: "c1" });
  });

  test("text files go along; others are refused in words", async () => {
    await at.page.locator('input[type="file"]:not([accept])').setInputFiles([
      { name: "a.txt", mimeType: "text/plain", buffer: Buffer.from("inside") },
      { name: "b.bin", mimeType: "application/octet-stream", buffer: Buffer.from([0, 1, 2]) },
    ]);
    await at.page.getByText("b.bin isn't a text file").waitFor();
    await ask(at.page, "read it");
    expect(server.asked[0]?.messages[0]?.content).toBe("a.txt\n```\ninside\n```\n\nread it");
    await at.page.reload();
    await at.page.getByRole("button", { name: /a\.txt/ }).click();
    await at.page.getByRole("dialog").getByText("inside").waitFor();
  });
});

describe("keys and places", () => {
  test("keyboard alone: palette, find, edit the last, table of keys", async () => {
    server.play({ deltas: [{ content: "The heron waits." }] });
    await ask(at.page, "bird");
    await at.page.keyboard.press("Control+k");
    const field = at.page.getByRole("combobox");
    await field.fill("heron");
    await at.page.getByRole("option").filter({ hasText: "The heron waits." }).waitFor();
    expect(await axe(at.page)).toEqual([]);
    await at.page.keyboard.press("Escape");
    await field.waitFor({ state: "detached" });
    await at.page.keyboard.press("Control+f");
    await at.page.keyboard.type("waits");
    await at.page.getByText("1 of 1").waitFor();
    await at.page.keyboard.press("Escape");
    await box(at.page).focus();
    await at.page.keyboard.press("ArrowUp");
    await at.page.getByRole("textbox", { name: "Edit the message" }).waitFor();
    await at.page.keyboard.press("Escape");
    await log(at.page).focus();
    await at.page.keyboard.press("?");
    await at.page.getByRole("dialog").getByText("Stop the answer").waitFor();
    expect(await axe(at.page)).toEqual([]);
  });

  for (const colorScheme of ["light", "dark"] as const)
    test(`phone, ${colorScheme}: nothing needs a pointer that hovers`, async () => {
      const phone = await open(browser, `${server.url}/`, {
        viewport: PHONE, colorScheme, hasTouch: true, isMobile: true,
      });
      server.play(RICH);
      const { page } = phone;
      await ask(page, "hello there");
      const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
      expect(wide).toBe(false);
      expect(await axe(page)).toEqual([]);
      await page.getByRole("button", { name: "Show or hide the conversations" }).click();
      await page.getByRole("button", { name: "More about hello there" }).click();
      await page.getByRole("menuitem", { name: "Rename" }).waitFor();
      expect(await axe(page)).toEqual([]);
      await phone.context.close();
      expect(phone.faults).toEqual([]);
    });

  test("dark: settings and samplers", async () => {
    const dark = await open(browser, `${server.url}/`, { colorScheme: "dark" });
    await dark.page.getByRole("button", { name: "Sampling" }).click();
    await dark.page.getByRole("textbox", { name: "Top p" }).fill("7");
    await dark.page.getByText("A number from 0 to 1").waitFor();
    expect(await axe(dark.page)).toEqual([]);
    await dark.page.getByRole("button", { name: "Close" }).click();
    await dark.page.getByRole("button", { name: "Settings" }).click();
    await dark.page.getByRole("combobox", { name: "Theme" }).click();
    expect(await axe(dark.page)).toEqual([]);
    await dark.page.getByRole("option", { name: "Light" }).click();
    await until(
      () => dark.page.evaluate(() => document.documentElement.dataset["theme"] === "light"), "light");
    await dark.context.close();
    expect(dark.faults).toEqual([]);
  });
});
