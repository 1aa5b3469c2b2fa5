import type { Page } from "playwright-core";
import { axe, PHONE, WIDE } from "./page.ts";

/**
 * What is wrong with the present state of `page` in light and dark, wide and on a phone: what
 * axe-core finds serious or critical, and a page that is wider than its window.
 */
export async function everywhere(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const viewport of [PHONE, WIDE]) {
    await page.setViewportSize(viewport);
    for (const colorScheme of ["dark", "light"] as const) {
      await page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
      await settled(page);
      const where = `${viewport.width} ${colorScheme}`;
      let wrong = await axe(page);
      if (wrong.length > 0) {
        // Colours of the last theme that the browser had not drawn anew: what is wrong stays wrong.
        await settled(page);
        wrong = await axe(page);
      }
      found.push(...wrong.map((each) => `${where}: ${each}`));
    }
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > viewport.width) found.push(`${viewport.width}: ${width} pixels wide`);
  }
  return found;
}

/** Waits until the colours of the other theme are there: axe would measure those on their way. */
async function settled(page: Page): Promise<void> {
  await page.evaluate(async () => {
    await new Promise(requestAnimationFrame);
    await Promise.allSettled(document.getAnimations().map((each) => each.finished));
  });
}
