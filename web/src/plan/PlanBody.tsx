import { useEffect, useMemo, useState } from "react";
import type { ModelState, Options } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { ProblemBox, Spinner } from "../parts/Feedback.tsx";
import { useServer } from "../store/server.ts";
import { bytes, count, t } from "../texts/index.ts";
import { Apply } from "./Apply.tsx";
import { Controls } from "./Controls.tsx";
import { tooMuchOn } from "./kinds.ts";
import { useMeasured } from "./measured.ts";
import { changeable, changes, sent } from "./options.ts";
import { Picture } from "./Picture.tsx";
import css from "./PlanBody.module.css";
import { PlanTables } from "./PlanTables.tsx";
import { Speed } from "./Speed.tsx";
import { takenIn, useAllocated } from "./useAllocated.ts";
import { usePlan } from "./usePlan.ts";

export interface PlanBodyProps {
  /** The model's name in requests. */
  id: string;
  /** What the server plans. */
  source: string;
  model: ModelState | undefined;
}

/** Options, picture, tables and speed of a plan, and the buttons that make it real. */
export function PlanBody({ id, source, model }: PlanBodyProps) {
  const server = useServer((known) => known.state);
  const base = useMemo(() => changeable(model?.options ?? {}), [model?.options]);
  const [wishes, setWishes] = useWishes(base);
  const { plan, problem, isBusy } = usePlan(source, sent(base, wishes), model?.arrived);
  const allocated = useAllocated(model);
  const taken = useMemo(() => takenIn(allocated), [allocated]);
  const measured = useMeasured(model);
  const lacking = plan?.devices.filter((device) => tooMuchOn(device) > 0) ?? [];
  if (!server) return <p className={css.wait}><Spinner /> {t.plan.loading}</p>;
  return (
    <div className={css.body} aria-busy={isBusy}>
      <Apply
        server={server} id={id} model={model} base={base} wishes={wishes} allocated={allocated}
      />
      {problem && (
        <ProblemBox problem={problem}>
          {Object.keys(wishes).length > 0 && (
            <Button small onClick={() => setWishes({})}>{t.plan.reset}</Button>
          )}
        </ProblemBox>
      )}
      {!plan && !problem && <p className={css.wait}><Spinner /> {t.plan.loading}</p>}
      {plan && (
        <>
          {lacking.length > 0 && (
            <p className={css.lacking} role="status">
              {t.plan.tooSmall(lacking.map((device) =>
                t.plan.lacks(device.name, bytes(tooMuchOn(device)))))}
            </p>
          )}
          <Speed
            plan={plan} measured={measured} isLoaded={model?.state === "ready"}
            isChanged={Object.keys(changes(base, wishes)).length > 0}
          />
          <Controls
            resolved={plan.resolved} wishes={wishes} devices={server.devices} onWishes={setWishes}
            hosts={hostsIn(plan.devices, server.devices)}
          />
          <Picture plan={plan} taken={taken} isOld={problem !== null} />
          <p className={css.caches}>
            {t.plan.caches(count(plan.context_size), count(plan.cache_tokens))}
          </p>
          <PlanTables plan={plan} allocated={allocated} />
        </>
      )}
    </div>
  );
}

function hostsIn(...lists: readonly { name: string; is_host: boolean }[][]): Set<string> {
  return new Set(lists.flat().filter((device) => device.is_host).map((device) => device.name));
}

/** What is set. Once the model has other options, these are what is set. */
function useWishes(base: Options): [Options, (wishes: Options) => void] {
  const [wishes, setWishes] = useState(base);
  const text = JSON.stringify(base);
  useEffect(() => setWishes(JSON.parse(text) as Options), [text]);
  return [wishes, setWishes];
}
