import { beforeEach, expect, test } from "vitest";
import type { ModelState } from "../../../src/api/types.ts";
import { tellMeasured, useMeasurements } from "../../../src/store/measured.ts";

const model = (arrived: number) => ({ id: "m", arrived }) as ModelState;
const known = () => useMeasurements.getState()["m"];

beforeEach(() => useMeasurements.setState({}, true));

test("an answer's speeds, with the tokens that they were measured over", () => {
  tellMeasured(model(1), {
    predicted_n: 40, predicted_per_second: 20, prompt_n: 300, prompt_per_second: 900,
  });
  expect(known()).toEqual({
    arrived: 1, decode: { per_second: 20, n_tokens: 40 },
    prefill: { per_second: 900, n_tokens: 300 },
  });
});

test("what is too short leaves what was known, but not after a move", () => {
  const long = { predicted_n: 40, predicted_per_second: 20 };
  const short = { predicted_n: 2, predicted_per_second: 900, prompt_n: 3, prompt_per_second: 1 };
  tellMeasured(model(1), long);
  tellMeasured(model(1), short);
  expect(known()).toMatchObject({ decode: { per_second: 20 }, prefill: null });
  tellMeasured(model(2), short);
  expect(known()).toEqual({ arrived: 2, decode: null, prefill: null });
});

test("nothing is kept of an answer without timings", () => {
  tellMeasured(model(1), null);
  tellMeasured(undefined, { predicted_n: 40, predicted_per_second: 20 });
  expect(useMeasurements.getState()).toEqual({});
});
