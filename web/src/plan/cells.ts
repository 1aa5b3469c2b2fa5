/** The parts of a model that the picture shows: embeddings, layers or runs of layers, head. */

import type { LayerBytes, PlanFacts } from "./facts.ts";

/** A picture with more layers than this shows runs of layers on the same device. */
export const MOST_LAYERS = 48;

/**
 * Layers `first` to `last` of a graph, on `device`; the ends have the numbers -1 and -1. `graph`:
 * "" for the language model. `weights`, `kv` and `expertsOnCpu` are bytes, null where the plan
 * doesn't say them.
 */
export interface Cell {
  key: string;
  part: "embeddings" | "layers" | "head";
  graph: string;
  device: string;
  first: number;
  last: number;
  weights: number | null;
  kv: number | null;
  expertsOnCpu: number;
}

/** How many layers `cell` has; an end counts as one. */
export function layersIn(cell: Cell): number {
  return cell.part === "layers" ? cell.last - cell.first + 1 : 1;
}

/** The cells of a plan from left to right. */
export function cellsOf(plan: PlanFacts, most: number = MOST_LAYERS): Cell[] {
  const others = plan.graphs.filter((graph) => graph.name !== "main");
  const nLayers = others.reduce((sum, graph) => sum + graph.layers.length, plan.layers.length);
  const joins = nLayers > most;
  return [
    end("embeddings", plan.embeddings, plan.end_bytes?.embeddings),
    ...layersOf("", plan.layers, plan.layer_bytes, joins),
    end("head", plan.head, plan.end_bytes?.head),
    ...others.flatMap((graph) => layersOf(graph.name, graph.layers, [], joins)),
  ].filter((cell) => cell.device !== "");
}

function end(part: "embeddings" | "head", device: string, bytes: number | undefined): Cell {
  return {
    key: part, part, graph: "", device, first: -1, last: -1, weights: bytes ?? null, kv: null,
    expertsOnCpu: 0,
  };
}

/** A cell for each layer, or for each run of layers that lie alike. */
function layersOf(
  graph: string, devices: readonly string[], bytes: readonly LayerBytes[], joins: boolean,
): Cell[] {
  const cells: Cell[] = [];
  devices.forEach((device, i) => {
    const own = bytes[i];
    const expertsOnCpu = own?.experts_on_cpu ?? 0;
    const before = cells.at(-1);
    const isAlike = before?.device === device && before.expertsOnCpu > 0 === expertsOnCpu > 0;
    if (joins && before && isAlike) {
      before.last = i;
      before.expertsOnCpu += expertsOnCpu;
      before.weights = sum(before.weights, own?.weights);
      before.kv = sum(before.kv, own?.kv);
      return;
    }
    cells.push({
      key: `${graph}/${i}`, part: "layers", graph, device, first: i, last: i,
      weights: own?.weights ?? null, kv: own?.kv ?? null, expertsOnCpu,
    });
  });
  return cells;
}

function sum(a: number | null, b: number | undefined): number | null {
  return a === null || b === undefined ? null : a + b;
}
