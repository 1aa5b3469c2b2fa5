import { Select as Base } from "@base-ui/react/select";
import { Check, ChevronDown } from "lucide-react";
import { useId } from "react";
import css from "./Field.module.css";
import popup from "./Popup.module.css";

export interface SelectProps<V extends string> {
  label: string;
  value: V;
  onChange: (value: V) => void;
  items: readonly { value: V; text: string }[];
  /** The label is for screen readers alone. */
  bare?: boolean;
}

export function Select<V extends string>({ label, value, onChange, items, bare }: SelectProps<V>) {
  const id = useId();
  const names = Object.fromEntries(items.map((item) => [item.value, item.text]));
  return (
    <div className={bare ? undefined : css.row}>
      <span id={id} className={bare ? "unseen" : undefined}>{label}</span>
      <Base.Root value={value} items={names} onValueChange={(now) => onChange(now as V)}>
        <Base.Trigger className={css.select} aria-labelledby={id}>
          <Base.Value />
          <Base.Icon><ChevronDown aria-hidden /></Base.Icon>
        </Base.Trigger>
        <Base.Portal>
          <Base.Positioner
            sideOffset={6} alignItemWithTrigger={false} align="end" className={popup.positioner}
          >
            <Base.Popup className={popup.menu}>
              {items.map((item) => (
                <Base.Item key={item.value} value={item.value} className={popup.item}>
                  <span className={popup.mark}>
                    <Base.ItemIndicator><Check aria-hidden /></Base.ItemIndicator>
                  </span>
                  <Base.ItemText>{item.text}</Base.ItemText>
                </Base.Item>
              ))}
            </Base.Popup>
          </Base.Positioner>
        </Base.Portal>
      </Base.Root>
    </div>
  );
}
