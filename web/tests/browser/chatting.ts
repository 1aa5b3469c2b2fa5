import type { Locator, Page } from "playwright-core";

export const box = (page: Page): Locator => page.getByRole("textbox", { name: "Message", exact: true });
export const log = (page: Page): Locator => page.getByRole("log");
export const answers = (page: Page): Locator => log(page).getByRole("article", { name: "Answer" });
export const questions = (page: Page): Locator => log(page).getByRole("article", { name: "You" });

/** Sends `text` with the keyboard. */
export async function say(page: Page, text: string): Promise<void> {
  await box(page).fill(text);
  await box(page).press("Enter");
}

/** Waits until no answer is being written. */
export async function settled(page: Page): Promise<void> {
  await page.getByRole("button", { name: "Send", exact: true }).waitFor();
}

/** Sends `text` and gives the answer's text. */
export async function ask(page: Page, text: string): Promise<string> {
  const n = await answers(page).count();
  await say(page, text);
  await answers(page).nth(n).getByRole("button", { name: "Answer again" }).waitFor();
  await settled(page);
  return answers(page).nth(n).innerText();
}

/** Waits until `check` gives true. */
export async function until(check: () => Promise<boolean> | boolean, what: string): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await check())) {
    if (Date.now() > end) throw new Error(`never: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Sets the JSON schema of the open conversation's answers. */
export async function setSchema(page: Page, schema: object): Promise<void> {
  await page.getByRole("button", { name: /^Form of answers/ }).click();
  await page.getByRole("textbox", { name: "JSON schema" }).fill(JSON.stringify(schema));
  await page.getByRole("button", { name: "Close" }).click();
}
