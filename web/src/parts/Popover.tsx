import { Popover as Base } from "@base-ui/react/popover";
import type { ReactElement, ReactNode } from "react";
import css from "./Popup.module.css";

export interface PopoverProps {
  trigger: ReactElement;
  title: string;
  children: ReactNode;
  side?: "top" | "bottom";
}

export function Popover({ trigger, title, children, side = "bottom" }: PopoverProps) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner
          sideOffset={8} side={side} align="end" collisionPadding={8} className={css.positioner}
        >
          <Base.Popup className={css.popover}>
            <Base.Title className={css.popoverTitle}>{title}</Base.Title>
            {children}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
