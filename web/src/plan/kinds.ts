/** The six uses of memory that a plan counts. */

import type { PlanDevice } from "./facts.ts";

export const KINDS = ["weights", "kv", "arena", "ring", "staging", "mapped"] as const;

/** A use of memory. Mapped bytes come last: they lie in the file and need no room of their own. */
export type Kind = (typeof KINDS)[number];

/** The bytes of `kind` on `device`. */
export function bytesOf(device: PlanDevice, kind: Kind): number {
  switch (kind) {
    case "weights":
      return device.weight_bytes;
    case "kv":
      return device.kv_bytes;
    case "arena":
      return device.arena_bytes;
    case "ring":
      return device.ring_bytes;
    case "staging":
      return device.staging_bytes;
    case "mapped":
      return device.mapped_bytes;
  }
}

/** The bytes that must be free on `device`: all but those that are mapped. */
export function neededOn(device: PlanDevice): number {
  return KINDS.reduce((sum, kind) => (kind === "mapped" ? sum : sum + bytesOf(device, kind)), 0);
}

/** The bytes that `device` lacks, 0 where the plan fits. */
export function tooMuchOn(device: PlanDevice): number {
  return Math.max(0, -device.left_bytes);
}

/** The kinds that some device of `devices` has, in their order. */
export function kindsOf(devices: readonly PlanDevice[]): Kind[] {
  return KINDS.filter((kind) => devices.some((device) => bytesOf(device, kind) > 0));
}
