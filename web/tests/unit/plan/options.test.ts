import { expect, test } from "vitest";
import type { Resolved } from "../../../src/api/types.ts";
import {
  changeable, changes, choiceOf, choicesOf, namesIn, sent, valueOf,
} from "../../../src/plan/options.ts";
import { nearest, sharesIn, tokenSteps } from "../../../src/plan/scale.ts";
import { random } from "./made.ts";

const option = (given: Partial<Resolved> = {}): Resolved => ({
  value: 1, source: "auto", least: null, greatest: null, choices: null, ...given,
});

test("only known options that leave a choice are shown", () => {
  const resolved = {
    n_gpu_layers: option({ least: 0, greatest: 4 }),
    context_size: option({ least: 256, greatest: 512 }),
    batch_size: option({ least: 32, greatest: 32 }), tensor_split: option(), split_mode: option(),
    override_tensor: option(), offload_order: option(),
  };
  expect(namesIn(resolved, 0, true)).toEqual(["context_size"]);
  expect(namesIn(resolved, 1, true)).toEqual(["n_gpu_layers", "context_size"]);
  expect(namesIn(resolved, 2, true)).toEqual(["n_gpu_layers", "context_size", "tensor_split"]);
  expect(namesIn(resolved, 0, false)).toEqual([]);
  expect(namesIn(resolved, 2, false)).toEqual(["split_mode", "offload_order"]);
});

test("what is automatic again is sent as such", () => {
  const base = { n_gpu_layers: 0, devices: ["gpu:0"], n_threads: 4 };
  expect(changeable(base)).toEqual({ n_gpu_layers: 0, devices: ["gpu:0"] });
  expect(sent(base, { devices: ["gpu:0"], context_size: 512 })).toEqual(
    { n_gpu_layers: "auto", devices: ["gpu:0"], context_size: 512 });
  expect(changes(base, { devices: ["gpu:0"], context_size: 512 })).toEqual(
    { n_gpu_layers: "auto", context_size: 512 });
  expect(changes(base, changeable(base))).toEqual({});
});

test("choices keep a value that the server doesn't list, and turn back into it", () => {
  const types = (choices: string[], value: unknown) =>
    choicesOf("kv_type", option({ choices }), value);
  expect(types(["f16", "q8_0"], "f16")).toEqual(["f16", "q8_0"]);
  expect(types(["f16"], "q8_0,f16")).toEqual(["q8_0,f16", "f16"]);
  expect(choicesOf("stream_weights", option(), true)).toEqual(["auto", "true", "false"]);
  for (const value of [true, false, null, "auto", "f16"])
    expect(valueOf(choiceOf(value))).toBe(value);
});

test("steps of tokens go from the least to the greatest, the usual sizes among them", () => {
  const steps = tokenSteps(256, 131072);
  expect(steps[0]).toBe(256);
  expect(steps.at(-1)).toBe(131072);
  for (const usual of [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536])
    expect(steps).toContain(usual);
  expect(steps.length).toBeLessThan(200);
  expect(tokenSteps(512, 512)).toEqual([512]);
  const seed = Date.now();
  const next = random(seed);
  for (let turn = 0; turn < 200; turn++) {
    const least = 1 + next(5000);
    const some = tokenSteps(least, least + 1 + next(1_000_000));
    const grows = some.every((step, i) => i === 0 || step > (some[i - 1] ?? 0));
    expect(grows, `seed ${seed}`).toBe(true);
  }
});

test("the nearest step is found", () => {
  expect(nearest([1, 10, 100], 12)).toBe(1);
  expect(nearest([1, 10, 100], 90)).toBe(2);
  expect(nearest([1], 5)).toBe(0);
});

test("shares are numbers from 0 on, not all 0", () => {
  expect(sharesIn("3, 1")).toEqual([3, 1]);
  expect(sharesIn("0.6 0.4 0")).toEqual([0.6, 0.4, 0]);
  for (const wrong of ["", "a", "3,-1", "0 0", "1,,x"]) expect(sharesIn(wrong)).toBeNull();
});
