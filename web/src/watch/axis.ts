import { SECONDS } from "./samples.ts";

/** Minutes that a plot shows of `seconds` of samples: an even number, so that it has a middle. */
export function minutesFor(seconds: number): number {
  return Math.min(SECONDS / 60, Math.max(2, 2 * Math.ceil(seconds / 120)));
}

/** The minutes before now that the axis of a plot of `minutes` names. */
export function marksOf(minutes: number, isNarrow: boolean): number[] {
  const step = isNarrow ? minutes / 2 : minutes > 4 ? 2 : 1;
  return Array.from({ length: Math.floor(minutes / step) + 1 }, (_, i) => i * step);
}
