/** Where everything of the plan's picture lies, in pixels. It draws nothing. */

import { type Cell, cellsOf, layersIn } from "./cells.ts";
import type { PlanDevice, PlanFacts } from "./facts.ts";
import { bytesOf, type Kind, KINDS, neededOn, tooMuchOn } from "./kinds.ts";

/** Pixels of a lane from top to bottom: the device's name, the cells, the bar, what is in memory
 * now, and the space below. */
export const NAME = 24;
export const CELL = 30;
export const BAR = 14;
export const NOW = 5;
export const GAP = 4;
export const LANE = NAME + CELL + GAP + BAR + GAP + NOW + 26;

/** A layer's cell is never narrower than this, so that it can be hit. */
const LEAST = 4;
/** The cells of the ends have room for a letter. */
const LEAST_END = 14;
/** A cell of several layers has room for a short name. */
const LEAST_RUN = 34;

/** A cell with its place. `label`: the text in it, "" where there is no room. */
export interface PlacedCell {
  cell: Cell;
  lane: number;
  x: number;
  width: number;
  label: string;
}

/** A part of a bar: `x` and `width` in pixels. */
export interface Segment {
  kind: Kind;
  x: number;
  width: number;
  bytes: number;
}

export interface Span {
  x: number;
  width: number;
}

/**
 * A device's lane. `bar`: the whole bar, which is as long as the memory of the device. `others`:
 * what other programs have. `tooMuch`: the part of the segments that doesn't fit. `now`: what is
 * allocated.
 */
export interface Lane {
  device: PlanDevice;
  y: number;
  bar: Span;
  segments: Segment[];
  others: Span | null;
  tooMuch: Span | null;
  now: Span | null;
}

export interface Picture {
  width: number;
  height: number;
  lanes: Lane[];
  cells: PlacedCell[];
}

/** The picture of `plan`. `taken`: the bytes that a loaded model has, by device. */
export function pictureOf(
  plan: PlanFacts, width: number, taken: Readonly<Record<string, number>> = {},
): Picture {
  const lanes = plan.devices.map((device, i) => laneOf(device, i, width, taken[device.name] ?? 0));
  return {
    width, height: LANE * lanes.length, lanes, cells: placed(cellsOf(plan), plan.devices, width),
  };
}

/** The cells beside one another over the whole width, each in its device's lane. */
function placed(cells: Cell[], devices: readonly PlanDevice[], width: number): PlacedCell[] {
  const numbers = new Map(devices.map((device, i) => [device.name, i]));
  const widths = widthsOf(cells, width);
  const every = labelStep(cells, widths);
  let x = 0;
  return cells.flatMap((cell, i) => {
    const own = widths[i] ?? 0;
    const at = x;
    x += own;
    const lane = numbers.get(cell.device);
    return lane === undefined
      ? []
      : [{ cell, lane, x: at, width: own, label: labelOf(cell, own, every) }];
  });
}

/** The widths of `cells`: in proportion to their layers, but none too narrow. */
function widthsOf(cells: readonly Cell[], width: number): number[] {
  const leasts = cells.map(leastOf);
  const sum = leasts.reduce((a, b) => a + b, 0);
  if (sum >= width) return leasts.map((least) => (least * width) / sum);
  const counts = cells.map(layersIn);
  // Cells that would be too narrow get their least width; the others share what remains.
  const fixed = new Set<number>();
  for (;;) {
    let rest = width;
    let n = 0;
    counts.forEach((count, i) => {
      if (fixed.has(i)) rest -= leasts[i] ?? 0;
      else n += count;
    });
    const narrow = counts.findIndex(
      (count, i) => !fixed.has(i) && (rest * count) / n < (leasts[i] ?? 0));
    if (narrow < 0) {
      return counts.map((count, i) => (fixed.has(i) ? leasts[i] ?? 0 : (rest * count) / n));
    }
    fixed.add(narrow);
  }
}

function leastOf(cell: Cell): number {
  if (cell.part !== "layers") return LEAST_END;
  return layersIn(cell) > 1 ? LEAST_RUN : LEAST;
}

/** The layers whose number is a multiple of this have it in their cells. */
function labelStep(cells: readonly Cell[], widths: readonly number[]): number {
  const single = cells.findIndex((cell) => cell.part === "layers" && cell.first === cell.last);
  const width = single < 0 ? Infinity : widths[single] ?? 0;
  const digits = String(Math.max(0, ...cells.map((cell) => cell.last))).length;
  const room = 6 + 7 * digits;
  return [1, 2, 5, 10, 20, 50].find((step) => step * width >= room) ?? 100;
}

function labelOf(cell: Cell, width: number, every: number): string {
  if (cell.part !== "layers") return cell.part === "embeddings" ? "E" : "H";
  if (cell.first === cell.last) return cell.first % every === 0 ? String(cell.first) : "";
  const whole = `L${cell.first}\u2013${cell.last}`;
  return width >= 7 * whole.length + 6 ? whole : "";
}

function laneOf(device: PlanDevice, i: number, width: number, taken: number): Lane {
  const needed = neededOn(device);
  const room = Math.max(0, device.left_bytes + needed);
  const whole = Math.max(device.total_bytes, room, needed + device.mapped_bytes, taken, 1);
  const scale = width / whole;
  const segments: Segment[] = [];
  let at = 0;
  for (const kind of KINDS) {
    const bytes = bytesOf(device, kind);
    if (bytes > 0) segments.push({ kind, bytes, x: at * scale, width: bytes * scale });
    at += bytes;
  }
  const over = tooMuchOn(device);
  const others = device.total_bytes - room;
  return {
    device, y: i * LANE, bar: { x: 0, width }, segments,
    others: others > 0 ? { x: room * scale, width: others * scale } : null,
    tooMuch: over > 0 ? { x: (needed - over) * scale, width: over * scale } : null,
    now: taken > 0 ? { x: 0, width: taken * scale } : null,
  };
}
