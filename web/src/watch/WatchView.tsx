import { lazy, Suspense } from "react";
import { Spinner } from "../parts/Feedback.tsx";
import { useServer } from "../store/server.ts";
import { t } from "../texts/index.ts";
import { Devices, Loaded } from "./Devices.tsx";
import { Log } from "./Log.tsx";
import { useSamples } from "./useSamples.ts";
import css from "./Watch.module.css";

const Plots = lazy(() => import("./Plots.tsx"));

/** Speed, memory, queue and log over time. */
export default function WatchView() {
  const server = useServer((known) => known.state);
  const run = server?.run ?? "";
  const columns = useSamples(run);
  return (
    <div className={css.view}>
      <h1 className={css.title}>{t.watch.title}</h1>
      <Suspense fallback={<p className={css.wait}><Spinner /> {t.watch.loading}</p>}>
        <Plots columns={columns} />
      </Suspense>
      <div className={css.cards}>
        <Devices devices={server?.devices ?? []} models={server?.models ?? []} />
        <Loaded models={server?.models ?? []} />
      </div>
      {server?.can_manage === false
        ? <p className={css.muted}>{t.watch.log.notAllowed}</p> : <Log run={run} />}
    </div>
  );
}
