import { expect, test } from "vitest";
import { LANE, pictureOf } from "../../../src/plan/geometry.ts";
import { device, plan, random } from "./made.ts";

const layers = (n: number, name = "gpu:0") => Array<string>(n).fill(name);

test("cells fill the width without a gap or an overlap", () => {
  const seed = Date.now();
  const next = random(seed);
  for (let turn = 0; turn < 300; turn++) {
    const where = `seed ${seed}, turn ${turn}`;
    const width = 120 + next(1400);
    const given = plan(
      Array.from({ length: 1 + next(120) }, () => (next(20) ? "gpu:0" : "cpu:0")),
      [device("gpu:0"), device("cpu:0", { is_host: true })]);
    const { cells } = pictureOf(given, width);
    let x = 0;
    for (const cell of cells) {
      expect(cell.x, where).toBeCloseTo(x, 6);
      expect(cell.width, where).toBeGreaterThan(0);
      x += cell.width;
    }
    expect(x, where).toBeCloseTo(width, 6);
  }
});

test("a cell lies in the lane of its device, and lanes are below one another", () => {
  const given = plan(["gpu:0", "cpu:0"], [device("gpu:0"), device("cpu:0", { is_host: true })]);
  const { cells, lanes, height } = pictureOf(given, 400);
  expect(cells.map(({ cell, lane }) => [cell.part, lane])).toEqual(
    [["embeddings", 0], ["layers", 0], ["layers", 1], ["head", 1]]);
  expect(lanes.map(({ y }) => y)).toEqual([0, LANE]);
  expect(height).toBe(2 * LANE);
});

test("numbers of layers are left out where they have no room", () => {
  const label = (n: number, width: number) =>
    pictureOf(plan(layers(n), [device("gpu:0")]), width).cells.map((cell) => cell.label)
      .filter(Boolean);
  expect(label(4, 400)).toEqual(["E", "0", "1", "2", "3", "H"]);
  expect(label(40, 400)).toEqual(["E", "0", "5", "10", "15", "20", "25", "30", "35", "H"]);
  expect(label(80, 400)).toEqual(["E", "L0\u201379", "H"]);
});

test("a bar is as long as the memory, and each kind as long as its bytes", () => {
  const gpu = device("gpu:0", {
    weight_bytes: 400, kv_bytes: 200, arena_bytes: 50, mapped_bytes: 100, free_bytes: 900,
  });
  const [lane] = pictureOf(plan(layers(2), [gpu]), 500).lanes;
  expect(lane?.segments).toEqual([
    { kind: "weights", bytes: 400, x: 0, width: 200 },
    { kind: "kv", bytes: 200, x: 200, width: 100 },
    { kind: "arena", bytes: 50, x: 300, width: 25 },
    { kind: "mapped", bytes: 100, x: 325, width: 50 },
  ]);
  // Other programs have 100 of the 1000 bytes.
  expect(lane?.others).toEqual({ x: 450, width: 50 });
  expect(lane?.tooMuch).toBeNull();
});

test("what is too much is the end of what is needed", () => {
  const gpu = device("gpu:0", { weight_bytes: 1500, kv_bytes: 500 });
  const [lane] = pictureOf(plan(layers(2), [gpu]), 500).lanes;
  expect(lane?.tooMuch).toEqual({ x: 250, width: 250 });
  expect(lane?.others).toBeNull();
});

test("what is in memory now has a bar on the same scale", () => {
  const gpu = device("gpu:0", { weight_bytes: 100 });
  const { lanes } = pictureOf(plan(layers(2), [gpu, device("cpu:0")]), 500, { "gpu:0": 400 });
  expect(lanes.map(({ now }) => now)).toEqual([{ x: 0, width: 200 }, null]);
});

test("a device of unknown size is as large as what it has", () => {
  const gpu = device("gpu:0", { weight_bytes: 300, free_bytes: 0, total_bytes: 0 });
  const [lane] = pictureOf(plan(layers(2), [gpu]), 300).lanes;
  expect(lane?.segments).toEqual([{ kind: "weights", bytes: 300, x: 0, width: 300 }]);
  expect(lane?.tooMuch).toEqual({ x: 0, width: 300 });
  const [empty] = pictureOf(plan([], [device("x", { free_bytes: 0, total_bytes: 0 })]), 300).lanes;
  expect(empty).toMatchObject({ segments: [], others: null, tooMuch: null, now: null });
});
