import { expect, test } from "vitest";
import { paramsText } from "../../../src/models/numbers.ts";

test("parameters are written as model names write them", () => {
  expect(paramsText(7_615_616_512)).toBe("7.62B");
  expect(paramsText(1_869_504)).toBe("1.87M");
  expect(paramsText(0)).toBe("");
});
