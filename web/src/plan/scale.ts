/** A slider's positions for numbers of tokens: fine steps for small numbers, coarse for large. */

/** Steps are about this share of the number itself. */
const SHARE = 1 / 16;

/** The values from `least` to `greatest` that a slider offers, both of them included. */
export function tokenSteps(least: number, greatest: number): number[] {
  if (greatest <= least) return [least];
  const steps = [least];
  for (let value = least; ;) {
    // A power of two, so that usual sizes such as 4096 and 32768 are among the values.
    const step = 2 ** Math.max(0, Math.round(Math.log2(Math.max(1, value * SHARE))));
    value = (Math.floor(value / step) + 1) * step;
    if (value >= greatest) break;
    steps.push(value);
  }
  return [...steps, greatest];
}

/** The position of the step that is nearest to `value`. */
export function nearest(steps: readonly number[], value: number): number {
  let best = 0;
  steps.forEach((step, i) => {
    if (Math.abs(step - value) < Math.abs((steps[best] ?? 0) - value)) best = i;
  });
  return best;
}

/** The shares in `text`, such as "3, 1"; null where they aren't numbers from 0 on. */
export function sharesIn(text: string): number[] | null {
  const parts = text.split(/[\s,;:/]+/).filter(Boolean);
  const shares = parts.map(Number);
  const isFine = shares.every((share) => Number.isFinite(share) && share >= 0);
  return shares.length > 0 && isFine && shares.some((share) => share > 0) ? shares : null;
}
