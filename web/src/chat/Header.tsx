import { ChevronDown, Layers, PanelLeft } from "lucide-react";
import { Button, IconButton } from "../parts/Button.tsx";
import { Menu } from "../parts/Menu.tsx";
import { changeOpen } from "../store/chat.ts";
import { prefer } from "../store/preferences.ts";
import type { Message } from "../store/records.ts";
import { useServer } from "../store/server.ts";
import { bytes, count, t } from "../texts/index.ts";
import css from "./Header.module.css";
import { mayChat, type Chosen } from "./useModel.ts";

export interface HeaderProps {
  model: Chosen;
  path: readonly Message[];
  onSidebar: () => void;
  onPlan: () => void;
}

export function Header({ model, path, onSidebar, onPlan }: HeaderProps) {
  return (
    <header className={css.header}>
      <IconButton label={t.chat.sidebar} icon={<PanelLeft aria-hidden />} onClick={onSidebar} />
      <ModelPicker model={model} />
      <span className={css.space} />
      <Context model={model} path={path} />
      {model.state && (
        <Button
          small className={css.plan} icon={<Layers size={15} aria-hidden />} onClick={onPlan}
        >
          {t.plan.title}
        </Button>
      )}
    </header>
  );
}

/** Chooses the model of this conversation, and of new ones. */
export function choose(id: string): void {
  prefer({ model: id });
  void changeOpen({ model: id });
}

function ModelPicker({ model }: { model: Chosen }) {
  const models = useServer((server) => server.state?.models ?? NONE);
  const state = model.state?.state ?? "unloaded";
  return (
    <Menu
      align="start"
      trigger={
        <button type="button" className={css.picker} aria-label={t.chat.modelIsNow(model.id)}>
          <span className={css.dot} data-state={state} />
          <span className={css.name}>{model.id || t.chat.noModel.message}</span>
          <ChevronDown size={15} aria-hidden />
        </button>
      }
      items={models.filter(mayChat).map((each) => ({
        text: each.id,
        detail: [t.chat.states[each.state], each.quant, bytes(each.bytes)]
          .filter(Boolean).join(" · "),
        checked: each.id === model.id,
        run: () => choose(each.id),
      }))}
    />
  );
}

const NONE: never[] = [];

/** How much of the context the last answer's prompt and text took. */
function Context({ model, path }: { model: Chosen; path: readonly Message[] }) {
  const size = model.state?.context_size ?? 0;
  const last = path.findLast((message) => message.timings)?.timings;
  if (!size || !last) return null;
  const used = (last.prompt_n ?? 0) + (last.cache_n ?? 0) + (last.predicted_n ?? 0);
  return (
    <span className={css.context}>
      <span className="unseen">{t.chat.context}</span> {count(used)} / {count(size)}
    </span>
  );
}
