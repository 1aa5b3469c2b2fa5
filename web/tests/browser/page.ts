import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import {
  chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Page,
} from "playwright-core";

const axeSource = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");

/** A browser with `more` arguments. */
export function launch(more: readonly string[] = []): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", ...more],
  });
}

export const WIDE = { width: 1440, height: 900 };
export const PHONE = { width: 390, height: 844 };

export interface Watched {
  page: Page;
  context: BrowserContext;
  /** What went wrong in the page: policy events, console errors, requests to other hosts. */
  faults: string[];
}

/** Requests that fail on purpose in a test leave these in the console. */
const EXPECTED = /Failed to load resource: the server responded with a status of (401|404|503)/;

/** A page that notes everything that must not happen. */
export async function open(
  browser: Browser, url: string, options: BrowserContextOptions & { refused?: boolean } = {},
): Promise<Watched> {
  const { refused = false, ...rest } = options;
  const context = await browser.newContext({ viewport: WIDE, ...rest });
  const watched = await watch(context, url, refused);
  await watched.page.goto(url);
  return watched;
}

/** A further tab of `context`. */
export async function watch(
  context: BrowserContext, url: string, refused = false,
): Promise<Watched> {
  const faults: string[] = [];
  const host = new URL(url).host;
  const page = await context.newPage();
  page.on("console", (message) => {
    const text = message.text();
    if (text.startsWith("policy: ")) faults.push(text);
    else if (message.type() === "error" && !(refused && EXPECTED.test(text)))
      faults.push(`console: ${text}`);
  });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const to = new URL(request.url());
    if (!["blob:", "data:"].includes(to.protocol) && to.host !== host)
      faults.push(`request: ${request.url()}`);
  });
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (event) => {
      console.warn(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  return { page, context, faults };
}

interface Finding {
  id: string;
  impact: string | null;
  nodes: { html: string; failureSummary?: string }[];
}

/** What axe-core finds serious or critical. */
export async function axe(page: Page): Promise<string[]> {
  // What fades in has too little contrast meanwhile. Spinners never end.
  await page.evaluate(async () => {
    const fading = document.getAnimations().filter(
      (each) => each.effect?.getComputedTiming().iterations !== Infinity);
    await Promise.allSettled(fading.map((each) => each.finished));
  });
  // The policy refuses it as a script; evaluating its source is the debugger's affair.
  await page.evaluate(axeSource);
  const found = await page.evaluate(async () => {
    const { axe: run } = globalThis as unknown as {
      axe: { run: (options: object) => Promise<{ violations: Finding[] }> };
    };
    interface Finding {
      id: string;
      impact: string | null;
      nodes: { html: string; failureSummary?: string }[];
    }
    const { violations } = await run.run({ resultTypes: ["violations"] });
    return violations.filter((each) => ["serious", "critical"].includes(each.impact ?? ""));
  });
  return (found as Finding[]).map(
    (each) => `${each.id}: ${each.nodes.map((node) => `${node.html} ${node.failureSummary}`).join("\n  ")}`,
  );
}
