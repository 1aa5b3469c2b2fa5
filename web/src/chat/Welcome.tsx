import { t } from "../texts/index.ts";
import type { Chosen } from "./useModel.ts";
import css from "./Welcome.module.css";

/** What an empty conversation shows. */
export function Welcome({ model }: { model: Chosen }) {
  return (
    <div className={css.welcome}>
      <svg viewBox="0 0 32 32" aria-hidden className={css.bird}>
        <path d="M3 9c6-1 9 2 13 7 4-5 7-8 13-7-5 1-7 4-9 7l2 9-6-5-6 5 2-9C10 13 8 10 3 9z" />
      </svg>
      <h2>{t.chat.welcome}</h2>
      <p>{model.id ? t.chat.welcomeTo(model.id) : t.chat.noModel.message}</p>
    </div>
  );
}
