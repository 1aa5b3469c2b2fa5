import { Progress, Spinner } from "../parts/Feedback.tsx";
import { findModel, useServer } from "../store/server.ts";
import { t } from "../texts/index.ts";
import css from "./Row.module.css";

/** Why nothing has come yet: the model is loaded or moved, or others are served first. */
export function Waiting({ model }: { model: string }) {
  const state = useServer((server) => findModel(server.state, model));
  const progress = state?.progress;
  const share = progress?.total ? progress.done / progress.total : null;
  const isMoving = state !== undefined && ["loading", "restarting", "moving"].includes(state.state);
  const text = isMoving
    ? t.chat.modelIs[state.state as "loading" | "restarting" | "moving"](model)
    : state?.waiting ? t.chat.waitsBehind(state.waiting) : t.chat.reads;
  return (
    <div className={css.waiting}>
      <p role="status"><Spinner /> {text}</p>
      {isMoving && <Progress label={text} share={share} />}
    </div>
  );
}
