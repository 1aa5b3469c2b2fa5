import { bytes, t } from "../texts/index.ts";
import { cellsOf, type Cell } from "./cells.ts";
import type { PlanDevice, PlanFacts } from "./facts.ts";
import { bytesOf, KINDS, neededOn, tooMuchOn } from "./kinds.ts";
import css from "./PlanTables.module.css";

const words = t.plan.table;

/** The picture as tables. `allocated`: the plan that is in memory, null where none is. */
export function PlanTables({ plan, allocated }: { plan: PlanFacts; allocated: PlanFacts | null }) {
  return (
    <details className={css.details}>
      <summary>{words.title}</summary>
      <DeviceTable plan={plan} allocated={allocated} />
      <LayerTable plan={plan} />
    </details>
  );
}

/** A cell of text for each kind of bytes, planned and as they are in memory. */
function DeviceTable({ plan, allocated }: { plan: PlanFacts; allocated: PlanFacts | null }) {
  const columns = plan.devices.map((planned) => ({
    planned,
    now: allocated?.devices.find((device) => device.name === planned.name),
  }));
  const row = (
    title: string, planned: (device: PlanDevice) => string,
    now: (device: PlanDevice) => string = planned,
  ) => (
    <tr key={title}>
      <th scope="row">{title}</th>
      {columns.flatMap((column) => [
        <td key={column.planned.name}>{planned(column.planned)}</td>,
        allocated && (
          <td key={`${column.planned.name} now`} className={css.now}>
            {column.now ? now(column.now) : words.unknown}
          </td>
        ),
      ])}
    </tr>
  );
  const left = (device: PlanDevice) => tooMuchOn(device) > 0
    ? t.plan.picture.tooMuch(bytes(tooMuchOn(device))) : bytes(device.left_bytes);
  return (
    <div className={css.scroll} tabIndex={0} role="region" aria-label={words.devices}>
      <table>
        <caption>{words.devices}</caption>
        <thead>
          <tr>
            <th scope="col">{words.kind}</th>
            {columns.flatMap(({ planned: { name } }) => [
              <th key={name} scope="col">{words.planned(name)}</th>,
              allocated && <th key={`${name} now`} scope="col">{words.now(name)}</th>,
            ])}
          </tr>
        </thead>
        <tbody>
          {KINDS.map((kind) =>
            row(t.plan.kinds[kind].name, (device) => bytes(bytesOf(device, kind))))}
          {row(words.needed, (device) => bytes(neededOn(device)))}
          {row(
            words.allocated, () => words.unknown,
            (device) => device.taken_bytes === null ? words.unknown : bytes(device.taken_bytes),
          )}
          {row(words.left, left, () => words.unknown)}
        </tbody>
      </table>
    </div>
  );
}

function nameOf(cell: Cell): string {
  const name = cell.part === "layers"
    ? t.plan.picture.layer(cell.first, cell.last) : t.plan.picture[cell.part];
  const whole = t.plan.picture.ofGraph(cell.graph, name);
  return cell.expertsOnCpu > 0
    ? `${whole}, ${t.plan.picture.expertsOnCpu(bytes(cell.expertsOnCpu))}` : whole;
}

function LayerTable({ plan }: { plan: PlanFacts }) {
  const size = (value: number | null) => (value === null ? words.unknown : bytes(value));
  return (
    <div className={css.scroll} tabIndex={0} role="region" aria-label={words.layers}>
      <table>
        <caption>{words.layers}</caption>
        <thead>
          <tr>
            <th scope="col">{words.part}</th>
            <th scope="col">{words.device}</th>
            <th scope="col">{words.weights}</th>
            <th scope="col">{words.kv}</th>
          </tr>
        </thead>
        <tbody>
          {/* Layers that lie alike are one row. */}
          {cellsOf(plan, 0).map((cell) => (
            <tr key={cell.key}>
              <th scope="row">{nameOf(cell)}</th>
              <td>{cell.device}</td>
              <td>{size(cell.weights)}</td>
              <td>{size(cell.kv)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
