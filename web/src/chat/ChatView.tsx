import { lazy, Suspense, useEffect, useMemo, useState } from "react";
import { Empty } from "../parts/Feedback.tsx";
import { go } from "../route.ts";
import { useStreams } from "../store/answering.ts";
import { openConversation, readList, useChat } from "../store/chat.ts";
import { prefer, usePreferences } from "../store/preferences.ts";
import { pathTo } from "../store/tree.ts";
import { t } from "../texts/index.ts";
import css from "./ChatView.module.css";
import { Composer } from "./Composer.tsx";
import { FindBar } from "./FindBar.tsx";
import { Header } from "./Header.tsx";
import { MessageList } from "./MessageList.tsx";
import { Palette } from "./Palette.tsx";
import { rowsOf } from "./rows.ts";
import { Sidebar } from "./Sidebar.tsx";
import { useKeys } from "./useKeys.ts";
import { useModel } from "./useModel.ts";
import { Welcome } from "./Welcome.tsx";

const PlanPanel = lazy(() => import("../plan/PlanPanel.tsx"));
const Shortcuts = lazy(() => import("./Shortcuts.tsx"));
const SettingsPanel = lazy(() => import("./SettingsPanel.tsx"));

/** What stands over the conversation. */
export type Over = "" | "palette" | "shortcuts" | "plan" | "sampling" | "form" | "tools";

export function ChatView({ id }: { id: string }) {
  const open = useChat((chat) => chat.open);
  const isMissing = useChat((chat) => chat.isMissing);
  const sidebar = usePreferences((wishes) => wishes.sidebar);
  const [drawer, setDrawer] = useState(false);
  const [over, setOver] = useState<Over>("");
  const [find, setFind] = useState(false);
  const model = useModel();
  const isShown = open?.conversation.id === id;
  const { rows, path } = useMemo(() => {
    const messages = open ? pathTo(open.messages, open.conversation.leaf) : [];
    return { rows: rowsOf(messages), path: messages };
  }, [open?.messages, open?.conversation.leaf]);

  const title = isShown ? open.conversation.title : "";
  useEffect(() => {
    document.title = title ? `${title} · ${t.frame.name}` : t.frame.name;
  }, [title]);
  useEffect(() => void readList(), []);
  useEffect(() => {
    setDrawer(false);
    setFind(false);
    void openConversation(id);
  }, [id]);
  useKeys({ path, model: model.id, setOver, openFind: () => setFind(true), isFinding: find });

  const close = () => setOver("");
  const toggle = () => {
    if (matchMedia("(max-width: 900px)").matches) setDrawer(!drawer);
    else prefer({ sidebar: !sidebar });
  };
  const isSettings = over === "sampling" || over === "form" || over === "tools";
  return (
    <div className={css.chat} data-sidebar={sidebar} data-drawer={drawer}>
      <Sidebar current={id} onSearch={() => setOver("palette")} onClose={() => setDrawer(false)} />
      {drawer && <div className={css.shade} onClick={() => setDrawer(false)} aria-hidden />}
      <main className={css.main}>
        <h1 className="unseen">{title || t.chat.newTitle}</h1>
        <Header model={model} path={path} onSidebar={toggle} onPlan={() => setOver("plan")} />
        {find && <FindBar rows={rows} onClose={() => setFind(false)} />}
        {isMissing && !isShown ? (
          <Empty title={t.chat.missing}>
            <a href="#/chat" onClick={() => go({ view: "chat", id: "" })}>{t.chat.new}</a>
          </Empty>
        ) : isShown && open ? (
          <>
            {rows.length ? (
              <MessageList key={id} rows={rows} model={model.id} />
            ) : (
              <Welcome model={model} />
            )}
            <Composer
              key={`box-${id}`} open={open} path={path} model={model} onOver={setOver}
            />
          </>
        ) : null}
      </main>
      <Announcer />
      <Suspense fallback={null}>
        {over === "palette" && <Palette onClose={close} model={model} onOver={setOver} />}
        {over === "shortcuts" && <Shortcuts onClose={close} />}
        {over === "plan" && model.id && <PlanPanel open onClose={close} model={model.id} />}
        {isSettings && open && (
          <SettingsPanel
            tab={over} onTab={setOver} onClose={close} conversation={open.conversation}
            model={model}
          />
        )}
      </Suspense>
    </div>
  );
}

/** Says to screen readers that an answer has begun or ended, and nothing of its text. */
function Announcer() {
  const isRunning = useStreams((state) => state.streams.size > 0);
  const ended = useStreams((state) => state.ended);
  return <p className="unseen" role="status">{isRunning ? t.chat.begun : ended}</p>;
}
