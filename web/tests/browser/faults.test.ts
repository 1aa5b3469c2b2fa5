import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { box, until } from "./chatting.ts";
import { everywhere } from "./everywhere.ts";
import { axe, launch, open, type Watched } from "./page.ts";
import { scripted, type Scripted } from "./scripted.ts";

// What the other tests look for is planted here: a check that finds nothing here finds nothing there.

let browser: Browser;
let server: Scripted;

beforeAll(async () => {
  browser = await launch();
  server = await scripted();
});
afterAll(async () => {
  await browser.close();
  await server.stop();
});

async function start(): Promise<Watched> {
  const watched = await open(browser, `${server.url}/`);
  await box(watched.page).waitFor();
  expect(watched.faults).toEqual([]);
  return watched;
}

const PLANTED: Record<string, { plant: () => void; found: RegExp }> = {
  "an error in the console": { plant: () => console.error("planted"), found: /^console: planted/ },
  "an error that nobody catches": {
    plant: () => void setTimeout(() => {
      throw new Error("planted");
    }),
    found: /^error: planted/,
  },
  "a style in the page": {
    plant: () => {
      const style = document.createElement("style");
      style.append("p { color: red }");
      document.head.append(style);
    },
    found: /^policy: style-src/,
  },
  "HTML made of a text": {
    plant: () => {
      try {
        document.body.innerHTML = "<b>planted</b>";
      } catch {
        // Trusted Types refuse it, and tell.
      }
    },
    found: /^policy: require-trusted-types-for/,
  },
  "a picture of another host": {
    plant: () => {
      new Image().src = "https://planted.invalid/a.png";
    },
    found: /^policy: img-src https:\/\/planted\.invalid/,
  },
  "a request to another host": {
    plant: () => location.assign("http://planted.invalid/"),
    found: /^request: http:\/\/planted\.invalid/,
  },
};

for (const [name, { plant, found }] of Object.entries(PLANTED))
  test(`${name} is noted`, async () => {
    const { page, context, faults } = await start();
    await page.evaluate(plant).catch((error: unknown) => {
      // Only the one that leaves the page may end it.
      if (name !== "a request to another host") throw error;
    });
    await until(() => faults.some((fault) => found.test(fault)), `${name}: ${faults.join("; ")}`);
    await context.close();
  });

test("what axe-core finds serious is noted, and a page that is too wide", async () => {
  const { page, context } = await start();
  expect(await axe(page)).toEqual([]);
  await page.getByRole("button", { name: "Settings" }).evaluate((button) => {
    button.replaceChildren();
    document.body.append(Object.assign(document.createElement("div"), { id: "wide" }));
    document.getElementById("wide")!.style.width = "3000px";
    document.getElementById("wide")!.style.height = "1px";
    document.body.style.overflow = "visible";
  });
  expect(await axe(page)).toEqual([expect.stringMatching(/^button-name: /)]);
  expect((await everywhere(page)).map((each) => each.replace(/\n[^]*/, ""))).toEqual([
    expect.stringMatching(/^390 dark: button-name/), expect.stringMatching(/^390 light: button-name/),
    "390: 3000 pixels wide", expect.stringMatching(/^1440 dark: button-name/),
    expect.stringMatching(/^1440 light: button-name/), "1440: 3000 pixels wide",
  ]);
  await context.close();
});
