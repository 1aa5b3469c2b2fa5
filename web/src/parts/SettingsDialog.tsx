import { useEffect, useState } from "react";
import { address } from "../api/client.ts";
import { prefer, usePreferences, type Preferences } from "../store/preferences.ts";
import { useServer } from "../store/server.ts";
import { bytes, t } from "../texts/index.ts";
import { Dialog } from "./Dialog.tsx";
import { Select } from "./Select.tsx";
import { Switch } from "./Switch.tsx";
import css from "./SettingsDialog.module.css";

const THEMES: readonly Preferences["theme"][] = ["system", "light", "dark"];

export function SettingsDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const wishes = usePreferences();
  const version = useServer((server) => server.state?.version);
  return (
    <Dialog open={open} onClose={onClose} title={t.frame.settings}>
      <div className={css.rows}>
        <Select
          label={t.frame.theme.label} value={wishes.theme}
          onChange={(theme) => prefer({ theme })}
          items={THEMES.map((value) => ({ value, text: t.frame.theme[value] }))}
        />
        <Switch
          label={t.frame.sendWithEnter} checked={wishes.sendWithEnter}
          onChange={(sendWithEnter) => prefer({ sendWithEnter })}
        />
        <Switch
          label={t.frame.singleKeys} checked={wishes.singleKeys}
          onChange={(singleKeys) => prefer({ singleKeys })}
        />
        <Storage />
        <p className={css.about}>
          {version && `${t.frame.version(version)} · `}
          <a href={address("assets/notices.txt")} target="_blank" rel="noopener noreferrer">
            {t.frame.notices}
          </a>
        </p>
      </div>
    </Dialog>
  );
}

/** What the conversations take, and whether the browser promises to keep them. */
function Storage() {
  const [found, setFound] = useState<{ used: number; isKept: boolean } | null>(null);
  useEffect(() => {
    // Absent where the page came over plain HTTP from another machine.
    const storage = navigator.storage as StorageManager | undefined;
    if (!storage) return;
    void Promise.all([storage.estimate(), storage.persisted()]).then(([estimate, isKept]) =>
      setFound({ used: estimate.usage ?? 0, isKept }),
    );
  }, []);
  return (
    <p className={css.about}>
      {found && `${t.frame.storage.used(bytes(found.used))} `}
      {found?.isKept ? t.frame.storage.kept : t.frame.storage.mayGo}
    </p>
  );
}
