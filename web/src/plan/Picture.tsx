import { useId, useMemo, useState } from "react";
import { bytes, t } from "../texts/index.ts";
import { BAR, CELL, GAP, NAME, NOW, pictureOf, type Lane, type PlacedCell } from "./geometry.ts";
import type { PlanDevice, PlanFacts } from "./facts.ts";
import { kindsOf, neededOn, tooMuchOn } from "./kinds.ts";
import css from "./Picture.module.css";
import { useWidth } from "./useWidth.ts";

const words = t.plan.picture;

/** The text that a cell shows when it is pointed at. */
function cellText({ cell }: PlacedCell): string {
  const name = cell.part === "layers" ? words.layer(cell.first, cell.last) : words[cell.part];
  const where = words.cell(words.ofGraph(cell.graph, name), cell.device);
  const sizes = [
    cell.weights !== null && words.weights(bytes(cell.weights)),
    cell.kv !== null && words.kv(bytes(cell.kv)),
    cell.expertsOnCpu > 0 && words.expertsOnCpu(bytes(cell.expertsOnCpu)),
  ].filter(Boolean).join(", ");
  return sizes ? `${where}: ${sizes}` : where;
}

/** What is left on `device`, or what is too much. */
export function stateText(device: PlanDevice): string {
  const over = tooMuchOn(device);
  return over > 0
    ? words.tooMuch(bytes(over))
    : words.left(bytes(device.left_bytes), bytes(device.left_bytes + neededOn(device)));
}

export interface PictureProps {
  plan: PlanFacts;
  /** The bytes that the loaded model has, by device. */
  taken: Readonly<Record<string, number>>;
  /** The picture belongs to older options. */
  isOld: boolean;
}

/** Layers over devices, and what fills the memory of each. The tables below it say the same. */
export function Picture({ plan, taken, isOld }: PictureProps) {
  const [box, width] = useWidth<HTMLDivElement>();
  const [pointed, setPointed] = useState("");
  const hatch = useId();
  const picture = useMemo(() => pictureOf(plan, width, taken), [plan, width, taken]);
  const summary = words.summary(
    plan.model, plan.layers.length,
    plan.devices.map((device) => words.lane(device.name, device.n_layers, stateText(device))),
  );
  return (
    <figure className={`${css.figure} ${isOld ? css.old : ""}`}>
      <div ref={box} onPointerLeave={() => setPointed("")}>
        {width > 0 && (
          <svg role="img" aria-label={summary} width={width} height={picture.height}>
            <defs>
              <pattern id={hatch} width="6" height="6" patternUnits="userSpaceOnUse"
                patternTransform="rotate(45)">
                <rect width="6" height="6" className={css.hatchGround} />
                <rect width="3" height="6" className={css.hatchLine} />
              </pattern>
            </defs>
            {picture.lanes.map((lane) => (
              <LaneDrawing
                key={lane.device.name} lane={lane} width={width} hatch={hatch} point={setPointed}
                taken={taken[lane.device.name]}
              />
            ))}
            {picture.cells.map((placed) => (
              <CellDrawing
                key={placed.cell.key} placed={placed} lanes={picture.lanes} point={setPointed}
              />
            ))}
            {picture.cells.filter((placed) => placed.label).map((placed) => (
              <Label key={placed.cell.key} placed={placed} lanes={picture.lanes} />
            ))}
          </svg>
        )}
      </div>
      <figcaption className={css.pointed} aria-hidden>{pointed || words.point}</figcaption>
      <Legend plan={plan} taken={taken} />
    </figure>
  );
}

/** The lane of the host where the experts of a cell are; -1 where they are with their layer. */
function hostOf({ cell, lane }: PlacedCell, lanes: readonly Lane[]): number {
  const host = lanes.findIndex(({ device }) => device.is_host);
  return cell.expertsOnCpu > 0 && host !== lane ? host : -1;
}

/** A cell's number or letter. It may be wider than its cell, so it is drawn after all of them. */
function Label({ placed, lanes }: { placed: PlacedCell; lanes: readonly Lane[] }) {
  const { x, width, lane, label } = placed;
  const y = (lanes[lane]?.y ?? 0) + NAME + (hostOf(placed, lanes) >= 0 ? 11 : CELL / 2 + 4);
  return (
    <text
      className={`${css.label} ${css.moving}`}
      style={{ transform: `translate(${x + width / 2}px, ${y}px)` }}
    >
      {label}
    </text>
  );
}

/** Space between a cell and the next. */
const BETWEEN = 1;

function CellDrawing({ placed, lanes, point }: {
  placed: PlacedCell; lanes: readonly Lane[]; point: (text: string) => void;
}) {
  const { cell, x, width } = placed;
  const host = hostOf(placed, lanes);
  const isHalved = host >= 0;
  const y = (lanes[placed.lane]?.y ?? 0) + NAME;
  const inner = Math.max(1, width - BETWEEN);
  const colour = cell.part === "layers" ? css[`lane${placed.lane % 6}`] : css.end;
  const text = cellText(placed);
  return (
    <g onPointerEnter={() => point(text)}>
      {isHalved && (
        <rect
          className={`${css.cell} ${css[`lane${host % 6}`]} ${css.experts}`} rx={2}
          height={CELL / 2}
          style={{ transform: `translate(${x}px, ${(lanes[host]?.y ?? 0) + NAME + CELL / 2}px)`,
            width: inner }}
        />
      )}
      <g className={css.moving} style={{ transform: `translate(${x}px, ${y}px)` }}>
        <rect
          className={`${css.cell} ${colour}`} rx={2} height={isHalved ? CELL / 2 - 1 : CELL}
          style={{ width: inner }}
        />
      </g>
    </g>
  );
}

/** Pixels that a character of a lane's small text takes at most. */
const CHARACTER = 7;

function LaneDrawing({ lane, width, hatch, point, taken }: {
  lane: Lane; width: number; hatch: string; point: (text: string) => void;
  taken: number | undefined;
}) {
  const { device, y, segments, others, tooMuch, now } = lane;
  const state = stateText(device);
  const bar = y + NAME + CELL + GAP;
  const planned = bytes(neededOn(device));
  const about = [
    words.layers(device.n_layers), device.is_pretend ? words.pretended : device.description,
  ].filter(Boolean).join(" · ");
  const room = width - CHARACTER * (state.length + device.name.length + 5);
  const fitted = about.length * CHARACTER <= room
    ? about : words.layers(device.n_layers).length * CHARACTER <= room
      ? words.layers(device.n_layers) : "";
  return (
    <g>
      <text className={css.name} x={0} y={y + 16}>
        {device.name}
        <tspan className={css.about} dx={8}>{fitted}</tspan>
      </text>
      <text className={tooMuch ? css.wrong : css.state} x={width} y={y + 16}>{state}</text>
      <rect className={css.row} x={0} y={y + NAME} width={width} height={CELL} rx={3} />
      <rect className={css.track} x={0} y={bar} width={width} height={BAR} rx={3} />
      {others && (
        <rect
          className={css.others} x={others.x} y={bar} width={others.width} height={BAR} rx={3}
          onPointerEnter={() => point(t.plan.others)}
        />
      )}
      {segments.map((segment) => (
        <rect
          key={segment.kind} className={`${css.segment} ${css[segment.kind]}`} y={bar} height={BAR}
          style={{ x: segment.x, width: segment.width }}
          onPointerEnter={() =>
            point(words.part(t.plan.kinds[segment.kind].name, bytes(segment.bytes)))}
        />
      ))}
      {tooMuch && (
        <rect
          fill={`url(#${hatch})`} x={tooMuch.x} y={bar} width={tooMuch.width} height={BAR}
          onPointerEnter={() => point(state)}
        />
      )}
      {now && (
        <rect
          className={css.now} y={bar + BAR + GAP} height={NOW} rx={2}
          style={{ x: now.x, width: now.width }}
        />
      )}
      <text className={css.about} x={0} y={bar + BAR + GAP + NOW + 12}>
        {taken === undefined
          ? words.planned(planned) : words.plannedNow(planned, bytes(taken))}
      </text>
    </g>
  );
}

function Legend({ plan, taken }: { plan: PlanFacts; taken: Readonly<Record<string, number>> }) {
  const marks = [
    ...kindsOf(plan.devices).map((kind) => ({
      key: kind, text: t.plan.kinds[kind].name, title: t.plan.kinds[kind].meaning,
    })),
    ...(plan.devices.some((device) => tooMuchOn(device) > 0)
      ? [{ key: "tooMuch", text: t.plan.tooMuch, title: "" }] : []),
    ...(Object.keys(taken).length > 0 ? [{ key: "now", text: t.plan.now, title: "" }] : []),
  ];
  return (
    <ul className={css.legend} aria-label={t.plan.legend}>
      {marks.map(({ key, text, title }) => (
        <li key={key} title={title || undefined}>
          <span className={`${css.mark} ${css[`mark_${key}`]}`} aria-hidden />
          {text}
        </li>
      ))}
    </ul>
  );
}
