/** The JSON of `/ui/api`: see `src/unladen/server/ui/shapes.py`. Sizes are bytes. */

export interface Problem {
  code: string;
  message: string;
  hint: string;
  param: string;
}

export interface Progress {
  phase: "start" | "download" | "weights" | "move";
  done: number;
  total: number;
}

export interface ChatAbilities {
  thinking: boolean;
  tools: boolean;
  media: string[];
}

export type ModelPhase = "unloaded" | "loading" | "ready" | "moving" | "failed" | "restarting";

export type Options = Record<string, unknown>;

export interface ModelState {
  id: string;
  aliases: string[];
  ref: string;
  state: ModelPhase;
  progress: Progress | null;
  error: Problem | null;
  context_size: number;
  trained_context: number;
  bytes: number;
  parameters: number;
  arch: string;
  quant: string;
  can: string[];
  chat: ChatAbilities;
  options: Options;
  device_bytes: Record<string, number>;
  running: number;
  waiting: number;
  expires: number | null;
  arrived: number;
}

export interface DeviceState {
  name: string;
  description: string;
  total_bytes: number;
  free_bytes: number;
  is_host: boolean;
  is_pretend: boolean;
}

export interface ServerState {
  version: string;
  run: string;
  offline: boolean;
  allow_any: boolean;
  can_manage: boolean;
  models: ModelState[];
  devices: DeviceState[];
}

export interface StoredFile {
  ref: string;
  path_label: string;
  store: string;
  bytes: number;
  arch: string;
  quant: string;
  parameters: number;
  context: number;
  parts_missing: number;
  problem: string;
  model: string | null;
}

export interface HubRepo {
  repo: string;
  downloads: number;
  likes: number;
  updated: string;
  gated: boolean;
}

export interface HubPage {
  repos: HubRepo[];
  cursor: string | null;
}

export interface HubFile {
  ref: string;
  name: string;
  quant: string;
  bytes: number;
  parts: number;
  parts_missing: number;
  is_here: boolean;
}

export interface HubFiles {
  repo: string;
  gated: boolean;
  files: HubFile[];
}

export interface Fit {
  ref: string;
  fits: boolean;
  gpu_layers: number;
  n_layers: number;
  decode_tps: number;
  prefill_tps: number;
  bound: string;
  context_size: number;
  bytes: number;
  short_bytes: number;
  error: Problem | null;
}

export interface Fits {
  files: Fit[];
}

export interface Download {
  id: string;
  ref: string;
  state: "queued" | "running" | "paused" | "failed" | "done";
  done: number;
  total: number;
  rate: number;
  error: Problem | null;
  created: number;
}

export interface Downloads {
  downloads: Download[];
}

export interface Resolved {
  value: unknown;
  source: "auto" | "set";
  least: number | null;
  greatest: number | null;
  choices: string[] | null;
}

export interface Accepted {
  id: string;
  state: string;
}

/** `PlanReport.facts()`: the plan view narrows what it reads. */
export type PlanFacts = Record<string, unknown> & { resolved?: Record<string, Resolved> };

export interface ModelDetail {
  model: ModelState;
  plan: PlanFacts | null;
}

export interface Sample {
  time: number;
  decode_tps: number;
  prefill_tps: number;
  running: number;
  waiting: number;
  prompt_tokens: number;
  cached_tokens: number;
  bytes: Record<string, number>;
}

export interface Columns {
  time: number[];
  decode_tps: number[];
  prefill_tps: number[];
  running: number[];
  waiting: number[];
  prompt_tokens: number[];
  cached_tokens: number[];
  bytes: Record<string, number[]>;
}

export interface Line {
  n: number;
  time: number;
  level: string;
  text: string;
}

export interface Lines {
  lines: Line[];
  last: number;
}
