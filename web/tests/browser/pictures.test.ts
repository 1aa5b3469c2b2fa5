import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { ask, log } from "./chatting.ts";
import { launch, open, PHONE, WIDE } from "./page.ts";
import { scripted } from "./scripted.ts";

/** The folder that gets the pictures; without it none are made. */
const FOLDER = process.env["UNLADEN_PICTURES"] ?? "";

const ANSWER = [
  "## Level flight",
  "The lift of a wing is $L = \\frac{1}{2} \\rho v^2 S C_L$. In level flight it equals the weight, so an " +
    "**unladen swallow** of 20 g flies at about `11 m/s`.",
  "1. Measure the wings\n2. Weigh the bird\n   - without a coconut\n   - with one",
  "```python\nimport math\n\ndef speed(mass: float, area: float) -> float:\n" +
    '    """Metres a second."""\n    return math.sqrt(2 * mass * 9.81 / (1.2 * area * 0.9))\n```',
  "| bird | mass | speed |\n|:--|--:|--:|\n| barn swallow | 20 g | 11 m/s |\n| swift | 40 g | 16 m/s |",
].join("\n\n");

/** `text` a few characters at a time. */
const tokens = (text: string, name: string) =>
  (text.match(/[\s\S]{1,4}/g) ?? []).map((part) => ({ [name]: part }));

test.skipIf(!FOLDER)("pictures of the chat", async () => {
  mkdirSync(FOLDER, { recursive: true });
  const server = await scripted();
  const browser = await launch();
  for (const [size, viewport] of Object.entries({ wide: WIDE, phone: PHONE }))
    for (const colorScheme of ["light", "dark"] as const) {
      server.play({
        deltas: [...tokens("Wings, weight, air. ".repeat(8), "reasoning_content"),
          ...tokens(ANSWER, "content")],
        every_ms: 5,
      });
      const { page, context, faults } = await open(browser, `${server.url}/`, {
        viewport, colorScheme,
      });
      await ask(page, "How fast does an unladen swallow fly? With code, maths and a table, please.");
      await log(page).locator("math").first().waitFor();
      await log(page).locator(".hljs-keyword").first().waitFor();
      await page.mouse.move(0, 0);
      await page.screenshot({ path: join(FOLDER, `chat-${size}-${colorScheme}.png`) });
      await context.close();
      expect(faults).toEqual([]);
    }
  await browser.close();
  await server.stop();
});
