import { expect, test } from "vitest";
import { cellsOf, layersIn, MOST_LAYERS } from "../../../src/plan/cells.ts";
import { device, plan, random } from "./made.ts";

const devices = [device("gpu:0"), device("cpu:0", { is_host: true })];
const on = (...runs: [string, number][]) =>
  runs.flatMap(([name, n]) => Array<string>(n).fill(name));

test("each layer has a cell between the ends", () => {
  const cells = cellsOf(plan(on(["gpu:0", 3], ["cpu:0", 1]), devices));
  expect(cells.map(({ part, device: where, first, last }) => [part, where, first, last])).toEqual([
    ["embeddings", "gpu:0", -1, -1], ["layers", "gpu:0", 0, 0], ["layers", "gpu:0", 1, 1],
    ["layers", "gpu:0", 2, 2], ["layers", "cpu:0", 3, 3], ["head", "cpu:0", -1, -1],
  ]);
  expect(cells.map(({ weights, kv }) => [weights, kv])).toEqual(
    [[7, null], [10, 2], [10, 2], [10, 2], [10, 2], [9, null]]);
});

test("more than 48 layers are runs, with all their bytes", () => {
  expect(cellsOf(plan(on(["gpu:0", MOST_LAYERS]), devices))).toHaveLength(MOST_LAYERS + 2);
  const cells = cellsOf(plan(on(["cpu:0", 2], ["gpu:0", 40], ["cpu:0", 7]), devices));
  expect(cells.slice(1, -1).map(({ device: where, first, last, weights, kv }) =>
    [where, first, last, weights, kv])).toEqual(
    [["cpu:0", 0, 1, 20, 4], ["gpu:0", 2, 41, 400, 80], ["cpu:0", 42, 48, 70, 14]]);
});

test("layers whose experts stay on the CPU are a run of their own", () => {
  const layers = on(["gpu:0", 60]);
  const layer_bytes = layers.map((_, i) => ({
    weights: 10, kv: 2, experts_on_cpu: i < 20 ? 6 : 0,
  }));
  const cells = cellsOf(plan(layers, devices, { layer_bytes })).slice(1, -1);
  expect(cells.map(({ first, last, expertsOnCpu }) => [first, last, expertsOnCpu])).toEqual(
    [[0, 19, 120], [20, 59, 0]]);
});

test("another graph's layers follow, and a part that the model lacks has no cell", () => {
  const given = plan(["cpu:0"], devices, {
    head: "", graphs: [{ name: "main", layers: ["cpu:0"] }, { name: "draft", layers: ["gpu:0"] }],
  });
  expect(cellsOf(given).map(({ graph, part, weights }) => [graph, part, weights])).toEqual(
    [["", "embeddings", 7], ["", "layers", 10], ["draft", "layers", null]]);
});

test("runs have every layer once, in order, whatever the placement", () => {
  const seed = Date.now();
  const next = random(seed);
  for (let turn = 0; turn < 200; turn++) {
    const layers = Array.from({ length: 49 + next(150) }, () => `gpu:${next(3)}`);
    const cells = cellsOf(plan(layers, devices)).filter(({ part }) => part === "layers");
    const found = cells.flatMap((cell) => Array<string>(layersIn(cell)).fill(cell.device));
    expect(found, `seed ${seed}, turn ${turn}`).toEqual(layers);
    expect(cells.every((cell, i) => cell.device !== cells[i + 1]?.device)).toBe(true);
  }
});
