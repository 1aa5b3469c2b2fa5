import { Tooltip as Base } from "@base-ui/react/tooltip";
import type { ReactElement } from "react";
import css from "./Tooltip.module.css";

/** Shows `text` beside `children`, one element, when it is pointed at or has the focus. */
export function Tooltip({ text, children }: { text: string; children: ReactElement }) {
  return (
    <Base.Root>
      <Base.Trigger render={children} />
      <Base.Portal>
        <Base.Positioner sideOffset={6} className={css.positioner}>
          <Base.Popup className={css.popup}>{text}</Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
