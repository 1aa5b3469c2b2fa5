import { Activity, Boxes, MessageSquare, Settings } from "lucide-react";
import type { ComponentType } from "react";
import { hrefOf, type Route } from "../route.ts";
import { t } from "../texts/index.ts";
import css from "./Rail.module.css";

const VIEWS: readonly { view: Route["view"]; Icon: ComponentType<{ "aria-hidden": true }> }[] = [
  { view: "chat", Icon: MessageSquare },
  { view: "models", Icon: Boxes },
  { view: "watch", Icon: Activity },
];

/** The three views: at the left, or below on a phone. */
export function Rail({ view, onSettings }: { view: Route["view"]; onSettings: () => void }) {
  return (
    <nav className={css.rail} aria-label={t.frame.navigation}>
      {VIEWS.map(({ view: each, Icon }) => (
        <a
          key={each}
          href={hrefOf({ view: each, id: "" })}
          aria-current={each === view ? "page" : undefined}
          className={css.item}
        >
          <Icon aria-hidden />
          <span>{t.frame.views[each]}</span>
        </a>
      ))}
      <span className={css.space} />
      <button type="button" className={css.item} onClick={onSettings}>
        <Settings aria-hidden />
        <span>{t.frame.settings}</span>
      </button>
    </nav>
  );
}
