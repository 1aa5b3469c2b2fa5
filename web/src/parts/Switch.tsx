import { Switch as Base } from "@base-ui/react/switch";
import { useId } from "react";
import css from "./Field.module.css";

export interface SwitchProps {
  label: string;
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
}

export function Switch({ label, checked, onChange, disabled = false }: SwitchProps) {
  const id = useId();
  return (
    <div className={css.row}>
      <span id={id}>{label}</span>
      <Base.Root
        checked={checked} onCheckedChange={onChange} disabled={disabled}
        aria-labelledby={id} className={css.switch}
      >
        <Base.Thumb className={css.thumb} />
      </Base.Root>
    </div>
  );
}
