import { count, rate, t } from "../texts/index.ts";
import type { Predicted, PlanFacts } from "./facts.ts";
import css from "./Speed.module.css";

const words = t.plan.speed;
const share = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 0 });

function boundText({ bound, terms, seconds }: Predicted): string {
  return bound ? words.bound(bound, share.format((terms[bound] ?? 0) / (seconds || 1))) : "";
}

export interface SpeedProps {
  plan: PlanFacts;
  /** Tokens a second of the loaded model; null: not measured. */
  measured: { decode: number | null; prefill: number | null };
  isLoaded: boolean;
}

/** Predicted tokens a second of answers and prompts, and the measured ones beside them. */
export function Speed({ plan, measured, isLoaded }: SpeedProps) {
  return (
    <dl className={css.speed} aria-label={words.title}>
      {(["decode", "prefill"] as const).map((step) => (
        <div key={step} className={css.step}>
          <dt>{words[step]}</dt>
          <dd>
            <strong>{words.perSecond(rate(plan[step].tokens_per_second))}</strong> {words.predicted}
          </dd>
          {isLoaded && (
            <dd>
              {measured[step] === null ? words.notYet : (
                <><strong>{words.perSecond(rate(measured[step]))}</strong> {words.measured}</>
              )}
            </dd>
          )}
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
