import type { Page } from "playwright-core";

interface TraceEvent {
  name: string;
  pid: number;
  tid: number;
  /** Microseconds of processor time. Absent where the system doesn't count them by thread. */
  tdur?: number;
}

/** What the page's main thread did, in milliseconds of its own processor time. */
export interface Work {
  longest_ms: number;
  sum_ms: number;
}

/** A task of a thread, and what only a page's main thread does. */
const [TASK, DRAWING] = ["ThreadControllerImpl::RunTask", "UpdateLayoutTree"];

/**
 * The tasks of `page` while `run` runs.
 *
 * Processor time says what the page costs on a busy machine, too, where clocks say what others do.
 */
export async function work(page: Page, run: () => Promise<unknown>): Promise<Work> {
  const cdp = await page.context().newCDPSession(page);
  const events: TraceEvent[] = [];
  cdp.on("Tracing.dataCollected", ({ value }) => events.push(...(value as unknown as TraceEvent[])));
  await cdp.send("Tracing.start", {
    transferMode: "ReportEvents",
    traceConfig: { includedCategories: ["toplevel", "devtools.timeline"] },
  });
  await run();
  const ended = new Promise((resolve) => cdp.once("Tracing.tracingComplete", resolve));
  await cdp.send("Tracing.end");
  await ended;
  await cdp.detach();
  const main = events.find((event) => event.name === DRAWING);
  const tasks = events.filter(({ name, pid, tid }) =>
    name === TASK && pid === main?.pid && tid === main.tid);
  const times = tasks.flatMap(({ tdur }) => (tdur === undefined ? [] : [tdur / 1000]));
  if (times.length === 0) throw new Error("the trace has no processor times of the page");
  return { longest_ms: Math.max(...times), sum_ms: times.reduce((sum, each) => sum + each, 0) };
}
