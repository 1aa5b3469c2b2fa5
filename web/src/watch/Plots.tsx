import "uplot/dist/uPlot.min.css";
import { useMemo } from "react";
import type { Columns } from "../api/types.ts";
import { bytes, count, percent, rate, t } from "../texts/index.ts";
import { Plot, type Series } from "./Plot.tsx";
import css from "./Plots.module.css";
import { cacheShares, stacked } from "./samples.ts";

/** Steps of an axis of bytes: powers of two, so that its numbers are round. */
const POWERS = Array.from({ length: 50 }, (_, i) => 2 ** i);
/** Steps of an axis of things that are counted. */
const COUNTS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000];
/** Properties with the colours of devices, in their order. */
const COLOURS = ["--plot-1", "--plot-2", "--plot-3", "--plot-4", "--plot-5", "--plot-6"];

/** Speed, memory, requests and cache over the last ten minutes. */
export default function Plots({ columns }: { columns: Columns }) {
  const { time } = columns;
  const speed = useMemo((): Series[] => [
    { name: t.watch.speed.decode, colour: "--plot-1", values: columns.decode_tps, shown: rate },
    {
      name: t.watch.speed.prefill, colour: "--plot-2", values: columns.prefill_tps, shown: rate,
      isRight: true,
    },
  ], [columns]);
  const memory = useMemo((): Series[] => {
    const names = Object.keys(columns.bytes).filter((name) => columns.bytes[name]?.some(Boolean));
    const heights = stacked(names.map((name) => columns.bytes[name] ?? []));
    // The highest is drawn first: the others cover its lower part.
    return names.map((name, i) => ({
      name, colour: COLOURS[i % COLOURS.length] ?? "", values: heights[i] ?? [],
      told: columns.bytes[name] ?? [], shown: bytes, isFilled: true, steps: POWERS,
    })).reverse();
  }, [columns]);
  const requests = useMemo((): Series[] => [
    {
      name: t.watch.requests.running, colour: "--plot-1", values: columns.running, shown: count,
      isStepped: true, steps: COUNTS,
    },
    {
      name: t.watch.requests.waiting, colour: "--plot-2", values: columns.waiting, shown: count,
      isStepped: true,
    },
  ], [columns]);
  const cache = useMemo((): Series[] => [{
    name: t.watch.cache.share, colour: "--plot-3", values: cacheShares(columns),
    shown: percent, isFilled: true,
  }], [columns]);
  return (
    <section className={css.plots} aria-label={t.watch.plots}>
      <Plot title={t.watch.speed.title} time={time} series={speed} none="–" />
      <Plot title={t.watch.memory.title} time={time} series={memory} none={t.watch.memory.none} />
      <Plot title={t.watch.requests.title} time={time} series={requests} none="–" />
      <Plot
        title={t.watch.cache.title} time={time} series={cache} none={t.watch.cache.none} most={1}
      />
    </section>
  );
}
