import type { Rate } from "../store/measured.ts";
import { count, percent, rate, t } from "../texts/index.ts";
import type { Predicted, PlanFacts } from "./facts.ts";
import css from "./Speed.module.css";

const words = t.plan.speed;

function boundText({ bound, terms, seconds }: Predicted): string {
  return bound ? words.bound(bound, percent((terms[bound] ?? 0) / (seconds || 1))) : "";
}

function predictedText({ n_tokens }: Predicted): string {
  return n_tokens > 1 ? words.predictedFor(count(n_tokens)) : words.predicted;
}

/** What stands behind a measured number: over how much, and whether it is that of this plan. */
function measuredText({ n_tokens }: Rate, isChanged: boolean): string {
  if (isChanged) return words.measuredBefore;
  return n_tokens === null ? words.measured : words.measuredOver(count(n_tokens));
}

export interface SpeedProps {
  plan: PlanFacts;
  /** Tokens a second of the loaded model; null: not measured. */
  measured: { decode: Rate | null; prefill: Rate | null };
  isLoaded: boolean;
  /** The plan is another one than that of the loaded model. */
  isChanged: boolean;
}

/** Predicted tokens a second of answers and prompts, and the measured ones beside them. */
export function Speed({ plan, measured, isLoaded, isChanged }: SpeedProps) {
  return (
    <dl className={css.speed} aria-label={words.title}>
      {(["decode", "prefill"] as const).map((step) => (
        <div key={step} className={css.step}>
          <dt>{words[step]}</dt>
          <dd>
            <strong>{words.perSecond(rate(plan[step].tokens_per_second))}</strong>{" "}
            {predictedText(plan[step])}
          </dd>
          {isLoaded && <Measured rate={measured[step]} isChanged={isChanged} />}
          <dd className={css.bound}>{boundText(plan[step])}</dd>
        </div>
      ))}
      {plan.streamed_from_n_tokens !== null && (
        <div className={css.bound}>
          <dt className="unseen">{words.title}</dt>
          <dd>{words.streamed(count(plan.streamed_from_n_tokens))}</dd>
        </div>
      )}
    </dl>
  );
}

function Measured({ rate: found, isChanged }: { rate: Rate | null; isChanged: boolean }) {
  if (!found) return <dd className={css.bound}>{words.notYet}</dd>;
  return (
    <dd>
      <strong>{words.perSecond(rate(found.per_second))}</strong> {measuredText(found, isChanged)}
    </dd>
  );
}
