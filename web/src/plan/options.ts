/** The options of a plan that the page can change, and what is sent for them. */

import type { Options, Resolved } from "../api/types.ts";

/** `auto` is the value that stands for "automatic": the default of `unladen.Model`. */
interface Known {
  auto: unknown;
  form: "number" | "tokens" | "choice" | "shares" | "devices";
  /** The choices where the server lists none. */
  choices?: readonly string[];
  /** It says nothing without a device beside the CPU, or without two of them. */
  least?: 1 | 2;
  /** Shown at once; others are behind "More". */
  isCommon?: boolean;
}

export const KNOWN = {
  n_gpu_layers: { auto: "auto", form: "number", isCommon: true, least: 1 },
  context_size: { auto: null, form: "tokens", isCommon: true },
  kv_type: { auto: "f16", form: "choice", isCommon: true },
  batch_size: { auto: 512, form: "tokens", isCommon: true },
  devices: { auto: null, form: "devices", isCommon: true },
  tensor_split: { auto: null, form: "shares", isCommon: true, least: 2 },
  cache_tokens: { auto: null, form: "tokens" },
  n_cpu_moe: { auto: null, form: "number", least: 1 },
  split_mode: { auto: "layer", form: "choice", least: 2 },
  main_gpu: { auto: 0, form: "number", least: 2 },
  offload_order: { auto: "first", form: "choice", least: 1 },
  kv_offload: { auto: true, form: "choice", choices: ["true", "false"], least: 1 },
  stream_weights: {
    auto: "auto", form: "choice", choices: ["auto", "true", "false"], least: 1,
  },
  embed_device: { auto: null, form: "choice", least: 1 },
  head_device: { auto: null, form: "choice", least: 1 },
} as const satisfies Record<string, Known>;

export type Name = keyof typeof KNOWN;

const NAMES = Object.keys(KNOWN) as Name[];

/**
 * The names of `resolved` that the page shows, in its order: those that it knows and that leave a
 * choice. `nGpus`: the devices in use beside the CPU.
 */
export function namesIn(
  resolved: Readonly<Record<string, Resolved>>, nGpus: number, isCommon: boolean,
): Name[] {
  return NAMES.filter((name) => {
    const known: Known = KNOWN[name];
    const option = resolved[name];
    const isFixed = option?.greatest !== null && option?.greatest === option?.least;
    return option !== undefined && !isFixed && (known.least ?? 0) <= nGpus
      && (known.isCommon ?? false) === isCommon;
  });
}

/** The choices of the option `name`; a value that isn't among them comes first. */
export function choicesOf(name: Name, option: Resolved, value: unknown): string[] {
  const known: Known = KNOWN[name];
  const names = option.choices ?? known.choices ?? [];
  return names.includes(choiceOf(value)) ? [...names] : [choiceOf(value), ...names];
}

/** Stands for "none" among choices. */
export const NONE = "none";

/** A value as one of the choices. */
export function choiceOf(value: unknown): string {
  if (value === null || value === undefined) return NONE;
  return Array.isArray(value) ? value.join(",") : String(value);
}

/** The value that a choice stands for. */
export function valueOf(choice: string): unknown {
  switch (choice) {
    case NONE:
      return null;
    case "true":
      return true;
    case "false":
      return false;
    default:
      return choice;
  }
}

/** The options of `given` that the page can change. */
export function changeable(given: Options): Options {
  return Object.fromEntries(
    Object.entries(given).filter(([name]) => (NAMES as string[]).includes(name)),
  );
}

/** What to send for `wishes` where the model has `base`: what it has and nobody wishes is set back
 * to automatic. */
export function sent(base: Options, wishes: Options): Options {
  const back = Object.keys(changeable(base)).filter((name) => !(name in wishes)) as Name[];
  return { ...Object.fromEntries(back.map((name) => [name, KNOWN[name].auto])), ...wishes };
}

/** What of `sent` differs from `base`: the changes to make. */
export function changes(base: Options, wishes: Options): Options {
  return Object.fromEntries(
    Object.entries(sent(base, wishes)).filter(
      ([name, value]) => !(name in base) || !isSame(base[name], value),
    ),
  );
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
