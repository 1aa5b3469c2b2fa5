import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import { t } from "../texts/index.ts";
import { useWidth } from "../plan/useWidth.ts";
import { marksOf, minutesFor } from "./axis.ts";
import css from "./Plots.module.css";

/** A line of a plot. `colour`: the name of a property of CSS. `shown`: its value as text. */
export interface Series {
  name: string;
  colour: string;
  values: readonly (number | null)[];
  /** What the caption says where it isn't the line's own height. */
  told?: readonly (number | null)[];
  shown: (value: number) => string;
  /** The line has its own scale, at the right. */
  isRight?: boolean;
  isFilled?: boolean;
  isStepped?: boolean;
  /** The steps of its axis. */
  steps?: readonly number[];
}

export interface PlotProps {
  title: string;
  /** Seconds since 1970. */
  time: readonly number[];
  series: readonly Series[];
  /** What the caption says where there is nothing to show. */
  none: string;
  /** The top of the scale; without it the greatest value. */
  most?: number;
}

const HEIGHT = 150;
/** A plot that is narrower has fewer numbers below it. */
const NARROW = 340;

/** `value`, a colour of CSS, as it is on `element` and in a form that a canvas knows. */
function resolved(element: HTMLElement, value: string): string {
  element.style.color = value;
  const colour = getComputedStyle(element).color;
  element.style.color = "";
  return colour;
}

/** Another value whenever the page turns from light to dark or back. */
function useTheme(): string {
  const read = () => getComputedStyle(document.body).backgroundColor;
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    const look = () => setTheme(read());
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", look);
    const observer = new MutationObserver(look);
    observer.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => {
      media.removeEventListener("change", look);
      observer.disconnect();
    };
  }, []);
  return theme;
}

/** Lines over the last minutes, ten at most. The caption has the newest values, or those pointed at. */
export function Plot({ title, time, series, none, most }: PlotProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const [pointed, setPointed] = useState<number | null>(null);
  const theme = useTheme();
  const shape = JSON.stringify([
    series.map(({ name, colour, isRight, isFilled, isStepped }) =>
      [name, colour, isRight, isFilled, isStepped]), most]);
  const latest = useRef({ series, time });
  latest.current = { series, time };

  useEffect(() => {
    const element = box.current;
    if (!element || width === 0) return;
    const made = new uPlot(
      options(element, width, latest.current.series, most, setPointed),
      dataOf(latest.current.time, latest.current.series), element,
    );
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [box, width, theme, shape, most]);
  useEffect(() => plot.current?.setData(dataOf(time, series)), [time, series]);

  const at = pointed !== null && pointed < time.length ? pointed : time.length - 1;
  return (
    <figure className={css.plot}>
      <figcaption>
        <h2>{title}</h2>
        <ul>
          {series.length === 0 && <li className={css.muted}>{none}</li>}
          {series.map(({ name, colour, values, told, shown }) => {
            const value = (told ?? values)[at];
            return (
              <li key={name}>
                <span className={css.mark} style={{ background: `var(${colour})` }} aria-hidden />
                {t.watch.value(name, value === null || value === undefined ? none : shown(value))}
              </li>
            );
          })}
        </ul>
      </figcaption>
      <div ref={box} className={css.canvas} aria-hidden />
    </figure>
  );
}

function dataOf(time: readonly number[], series: readonly Series[]): uPlot.AlignedData {
  return [[...time], ...series.map(({ values }) => [...values])] as uPlot.AlignedData;
}

function options(
  element: HTMLElement, width: number, series: readonly Series[], most: number | undefined,
  point: (index: number | null) => void,
): uPlot.Options {
  const muted = resolved(element, "var(--muted)");
  const grid = { stroke: resolved(element, "var(--line)"), width: 1 };
  const font = `11px ${getComputedStyle(element).fontFamily}`;
  const axis = { stroke: muted, font, ticks: { show: false }, grid };
  const range = (_: uPlot, __: number, max: number): [number, number] =>
    [0, most ?? Math.max(1, (max || 0) * 1.1)];
  const right = series.find(({ isRight }) => isRight);
  const left = series.find(({ isRight }) => !isRight);
  const values = (own: Series | undefined) => (_: uPlot, splits: number[]) =>
    splits.map((value) => own?.shown(value) ?? String(value));
  return {
    width, height: HEIGHT, legend: { show: false }, padding: [8, right ? 0 : 12, 0, 0],
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false } },
    hooks: { setCursor: [(made) => point(made.cursor.idx ?? null)] },
    scales: {
      x: {
        time: false,
        range: (_, min, max) => [(max || 0) - 60 * minutesFor((max || 0) - (min || 0)), max || 0],
      },
      y: { range }, right: { range },
    },
    series: [{}, ...series.map((own): uPlot.Series => {
      const stroke = resolved(element, `var(${own.colour})`);
      const path = own.isStepped ? uPlot.paths.stepped?.({ align: 1 }) : undefined;
      return {
        label: own.name, stroke, width: 1.5, scale: own.isRight ? "right" : "y",
        points: { show: false },
        ...(own.isFilled ? { fill: resolved(element, faded(own.colour)) } : {}),
        ...(path ? { paths: path } : {}),
      };
    })],
    axes: [
      {
        ...axis, size: 26, grid: { show: false },
        splits: (_, __, min, max) =>
          marksOf((max - min) / 60, width < NARROW).map((minutes) => max - minutes * 60),
        values: (_, splits) => splits.map((at) =>
          t.watch.ago(Math.round((at - (splits[0] ?? at)) / 60))),
      },
      {
        ...axis, size: 52, values: values(left), ...(left?.steps ? { incrs: [...left.steps] } : {}),
      },
      ...(right ? [{
        ...axis, scale: "right", side: 1 as const, size: 52, grid: { show: false },
        values: values(right),
      }] : []),
    ],
  };
}

/** A pale form of the property `name`. It covers what is behind it: areas lie over one another. */
const faded = (name: string) => `color-mix(in srgb, var(${name}) 32%, var(--raised))`;
