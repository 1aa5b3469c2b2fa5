import { Dialog } from "../parts/Dialog.tsx";
import { t } from "../texts/index.ts";
import css from "./Shortcuts.module.css";

/** The table of keys. */
export default function Shortcuts({ onClose }: { onClose: () => void }) {
  return (
    <Dialog open onClose={onClose} title={t.frame.shortcuts}>
      <dl className={css.keys}>
        {t.chat.keys.map(({ keys, does }) => (
          <div key={does}>
            <dt>{keys.map((key) => <kbd key={key}>{key}</kbd>)}</dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
