import { CircleAlert, CircleCheck } from "lucide-react";
import { bytes, rate, t } from "../texts/index.ts";
import type { Known } from "./fits.ts";
import css from "./Models.module.css";

const words = t.models.fit;

/** Whether a model fits with automatic settings, and how fast it is predicted to be. */
export function FitLine({ fit }: { fit: Known | undefined }) {
  if (!fit) return <span className={css.muted}>{words.wait}</span>;
  const problem = "problem" in fit ? fit.problem : fit.error;
  if (problem || "problem" in fit) {
    return (
      <span className={css.bad} title={problem?.message}>
        <CircleAlert aria-hidden />
        {words.unknown}
      </span>
    );
  }
  if (!fit.fits) {
    return (
      <span className={css.bad}>
        <CircleAlert aria-hidden />
        {words.tooBig(bytes(fit.short_bytes))}
      </span>
    );
  }
  const where = fit.gpu_layers === 0 ? words.onCpu
    : fit.gpu_layers >= fit.n_layers ? words.allLayers : words.layers(fit.gpu_layers, fit.n_layers);
  return (
    <span className={css.good}>
      <CircleCheck aria-hidden />
      {[words.fits, where, words.speed(rate(fit.decode_tps))].join(" · ")}
    </span>
  );
}
