import { en, type Texts } from "./en.ts";

/** The texts that the page shows. */
export const t: Texts = en;

const locale = "en";
const whole = new Intl.NumberFormat(locale);
const short = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 });
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
const day = new Intl.DateTimeFormat(locale, { dateStyle: "medium" });
const clock = new Intl.DateTimeFormat(locale, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const share = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });

/** `1,234`. */
export const count = (value: number): string => whole.format(value);

/** `41.2`: three digits that say something. */
export const rate = (value: number): string => short.format(value);

/** `47%` of 0.47. */
export const percent = (value: number): string => share.format(value);

/** `07:13:06` of seconds since 1970. */
export const clockOf = (seconds: number): string => clock.format(seconds * 1000);

/** `8.4 GiB`. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [rest, unit] = [value, 0];
  while (rest >= 1000 && unit < units.length - 1) [rest, unit] = [rest / 1024, unit + 1];
  return `${unit === 0 ? whole.format(rest) : short.format(rest)} ${units[unit]}`;
}

/** `30 ms`, `6 s`, `2 min 5 s`. */
export function duration(seconds: number): string {
  if (seconds > 0 && seconds < 0.1) return `${Math.ceil(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const rounded = Math.round(seconds);
  if (rounded < 60) return `${rounded} s`;
  return `${Math.floor(rounded / 60)} min ${rounded % 60} s`;
}

/** `Today`, `Yesterday`, or a date. `time`: milliseconds since 1970. */
export function dayOf(time: number, now = Date.now()): string {
  const start = (at: number) => new Date(at).setHours(0, 0, 0, 0);
  const days = Math.round((start(time) - start(now)) / 86_400_000);
  if (days > -2) {
    const word = relative.format(Math.min(0, days), "day");
    return word.charAt(0).toUpperCase() + word.slice(1);
  }
  return day.format(time);
}
