import { useEffect, useRef } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { ModelState, Options, Progress as Share, ServerState } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { ProblemBox, Progress } from "../parts/Feedback.tsx";
import { note, tell } from "../store/toasts.ts";
import { bytes, count, t } from "../texts/index.ts";
import css from "./Apply.module.css";
import type { PlanFacts } from "./facts.ts";
import { changes, sent } from "./options.ts";

const words = t.plan.apply;

export interface ApplyProps {
  server: ServerState;
  /** The model's name in requests. */
  id: string;
  /** Undefined while the server doesn't serve it yet. */
  model: ModelState | undefined;
  /** The options that the model has, and those that are wished. */
  base: Options;
  wishes: Options;
  /** The plan that is in memory. */
  allocated: PlanFacts | null;
}

async function ask(request: () => Promise<unknown>): Promise<void> {
  try {
    await request();
  } catch (error) {
    tell(asProblem(error, t.frame.unreachable));
  }
}

/** Loads the model as planned, or moves it there, and shows how far that is. */
export function Apply({ server, id, model, base, wishes, allocated }: ApplyProps) {
  useMoved(model);
  if (!server.can_manage) return <p className={css.note}>{words.notAllowed}</p>;
  if (!model && !server.allow_any) return <p className={css.note}>{words.notServed}</p>;
  const state = model?.state ?? "unloaded";
  const isIn = state === "ready" || state === "moving";
  const changed = changes(base, wishes);
  const hasChanges = Object.keys(changed).length > 0;
  return (
    <div className={css.apply}>
      {model?.error && (
        <ProblemBox problem={model.error}>
          {isIn && allocated && (
            <p>{words.stays(whereIs(allocated), count(allocated.context_size))}</p>
          )}
        </ProblemBox>
      )}
      {state !== "unloaded" && state !== "failed" && state !== "ready" && (
        <Moving state={state} progress={model?.progress ?? null} />
      )}
      <div className={css.row}>
        {(state === "unloaded" || state === "failed") && (
          <Button kind="primary" onClick={() => void ask(() => api.load(id, sent(base, wishes)))}>
            {words.load}
          </Button>
        )}
        {isIn && (
          <Button
            kind="primary" disabled={!hasChanges || state === "moving"}
            onClick={() => void ask(() => api.place(id, changed))}
          >
            {words.apply}
          </Button>
        )}
        {state !== "unloaded" && state !== "failed" && (
          <Button onClick={() => void ask(() => api.unload(id))}>
            {isIn ? words.unload : words.cancel}
          </Button>
        )}
        {state === "ready" && <p className={css.note}>{hasChanges ? words.kept : words.same}</p>}
      </div>
    </div>
  );
}

function whereIs(plan: PlanFacts): string {
  return plan.devices
    .filter((device) => device.n_layers > 0)
    .map((device) => words.where(device.n_layers, device.name))
    .join(", ");
}

/** Says that a move is done, once for each. */
function useMoved(model: ModelState | undefined): void {
  const wasMoving = useRef(false);
  const before = useRef(model?.arrived);
  useEffect(() => {
    if (!model) return;
    if (wasMoving.current && model.state === "ready" && model.arrived !== before.current)
      note(words.done(model.id));
    wasMoving.current = model.state === "moving";
    if (model.state !== "moving") before.current = model.arrived;
  }, [model]);
}

function Moving({ state, progress }: {
  state: "loading" | "moving" | "restarting"; progress: Share | null;
}) {
  const phase = progress ? words.loading[progress.phase] : words.loading.start;
  const text = state === "moving" ? words.moving
    : state === "restarting" ? words.restarting : phase;
  const total = progress?.total ?? 0;
  return (
    <div className={css.moving} role="status">
      <p>
        {text}
        {progress && total > 0 && state === "loading" && (
          <span className={css.share}>{t.plan.of(bytes(progress.done), bytes(total))}</span>
        )}
      </p>
      <Progress label={text} share={progress && total > 0 ? progress.done / total : null} />
    </div>
  );
}
