import type { DeviceState, ModelState } from "../api/types.ts";
import { hrefOf } from "../route.ts";
import { bytes, t } from "../texts/index.ts";
import css from "./Watch.module.css";

const words = t.watch.devices;

/** The memory of each device: what models have, what others have, and what is free. */
export function Devices({ devices, models }: {
  devices: readonly DeviceState[]; models: readonly ModelState[];
}) {
  const isIn = (model: ModelState) => model.state === "ready" || model.state === "moving";
  const own = (name: string) => models.filter(isIn).reduce(
    (sum, model) => sum + (model.device_bytes[name] ?? 0), 0);
  return (
    <section className={css.card} aria-label={words.title}>
      <h2>{words.title}</h2>
      {devices.length === 0 && <p className={css.muted}>{words.none}</p>}
      <ul className={css.bars}>
        {devices.map((device) => (
          <Device key={device.name} device={device} models={own(device.name)} />
        ))}
      </ul>
    </section>
  );
}

function Device({ device, models }: { device: DeviceState; models: number }) {
  const { name, description, total_bytes: total, free_bytes: free, is_pretend } = device;
  const used = Math.max(models, total - free);
  const share = (size: number) => `${total > 0 ? Math.min(100, (100 * size) / total) : 0}%`;
  return (
    <li>
      <div className={css.barTop}>
        <strong>{name}</strong>
        <span className={css.muted}>
          {is_pretend ? words.pretended : description}
        </span>
      </div>
      <div
        className={css.bar} role="meter" aria-label={words.bar(name)} aria-valuemin={0}
        aria-valuemax={total} aria-valuenow={used}
        aria-valuetext={words.used(bytes(used), bytes(total))}
      >
        <span className={css.barModels} style={{ width: share(models) }} />
        <span className={css.barOthers} style={{ width: share(used - models) }} />
      </div>
      <p className={css.muted}>
        {words.used(bytes(used), bytes(total))} · {words.models(bytes(models))}
      </p>
    </li>
  );
}

/** What is loaded, with its requests. */
export function Loaded({ models }: { models: readonly ModelState[] }) {
  const loaded = models.filter((model) => model.state !== "unloaded");
  return (
    <section className={css.card} aria-label={t.watch.models.title}>
      <h2>{t.watch.models.title}</h2>
      {loaded.length === 0 && <p className={css.muted}>{t.watch.models.none}</p>}
      <ul className={css.models}>
        {loaded.map((model) => (
          <li key={model.id}>
            <a href={hrefOf({ view: "models", id: model.id })}>{model.id}</a>
            <span className={css.muted}>
              {t.models.state[model.state]}
              {" · "}
              {t.watch.models.requests(model.running, model.waiting)}
            </span>
            {model.error && <p className={css.bad}>{model.error.message}</p>}
            {model.error?.hint && <p className={css.muted}>{t.frame.hint(model.error.hint)}</p>}
          </li>
        ))}
      </ul>
    </section>
  );
}
