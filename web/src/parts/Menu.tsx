import { Menu as Base } from "@base-ui/react/menu";
import { Check } from "lucide-react";
import type { ReactElement, ReactNode } from "react";
import css from "./Popup.module.css";

export interface MenuItem {
  text: string;
  run: () => void;
  icon?: ReactNode;
  detail?: string;
  /** For a choice: whether it is the present one. */
  checked?: boolean;
  danger?: boolean;
}

export interface MenuProps {
  /** The button that opens it. */
  trigger: ReactElement;
  items: readonly (MenuItem | "line")[];
  align?: "start" | "end";
}

export function Menu({ trigger, items, align = "end" }: MenuProps) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner sideOffset={6} align={align} className={css.positioner}>
          <Base.Popup className={css.menu}>
            {items.map((item, i) =>
              item === "line" ? (
                <Base.Separator key={i} className={css.line} />
              ) : (
                <Base.Item
                  key={item.text}
                  className={`${css.item} ${item.danger ? css.danger : ""}`}
                  onClick={item.run}
                >
                  {item.checked === undefined ? item.icon : <Mark checked={item.checked} />}
                  <span className={css.itemText}>
                    {item.text}
                    {item.detail && <small>{item.detail}</small>}
                  </span>
                </Base.Item>
              ),
            )}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}

function Mark({ checked }: { checked: boolean }) {
  return <span className={css.mark}>{checked && <Check aria-hidden />}</span>;
}
