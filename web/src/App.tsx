import { lazy, Suspense, useState } from "react";
import css from "./App.module.css";
import { ChatView } from "./chat/ChatView.tsx";
import { Toasts } from "./parts/Feedback.tsx";
import { KeyDialog } from "./parts/KeyDialog.tsx";
import { Rail } from "./parts/Rail.tsx";
import { SettingsDialog } from "./parts/SettingsDialog.tsx";
import { Status } from "./parts/Status.tsx";
import { Tooltip } from "./parts/Tooltip.tsx";
import { useRoute } from "./route.ts";
import { t } from "./texts/index.ts";

const ModelsView = lazy(() => import("./models/ModelsView.tsx"));
const WatchView = lazy(() => import("./watch/WatchView.tsx"));

export function App() {
  const route = useRoute();
  const [settings, setSettings] = useState(false);
  return (
    <div className={css.app}>
      <Rail view={route.view} onSettings={() => setSettings(true)} />
      <div className={css.main}>
        <Status />
        <Suspense fallback={<p className="unseen">{t.frame.loadingView}</p>}>
          {route.view === "chat" && <ChatView id={route.id} />}
          {route.view === "models" && <ModelsView id={route.id} />}
          {route.view === "watch" && <WatchView />}
        </Suspense>
      </div>
      <Toasts />
      <KeyDialog />
      <Tooltip />
      <SettingsDialog open={settings} onClose={() => setSettings(false)} />
    </div>
  );
}
