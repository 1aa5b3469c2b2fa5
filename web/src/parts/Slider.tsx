import { Slider as Base } from "@base-ui/react/slider";
import type { ReactNode } from "react";
import css from "./Field.module.css";

export interface SliderProps {
  label: string;
  value: number;
  least: number;
  greatest: number;
  step?: number;
  /** The value as it is shown and read out. */
  shown?: (value: number) => string;
  /** Beside the value, such as "auto". */
  mark?: ReactNode;
  onChange: (value: number) => void;
  /** Once the knob is let go. */
  onCommit?: (value: number) => void;
}

export function Slider(props: SliderProps) {
  const { label, value, least, greatest, step = 1, shown = String, mark, onChange, onCommit } = props;
  return (
    <Base.Root
      className={css.slider} value={value} min={least} max={greatest} step={step}
      onValueChange={(now) => onChange(now as number)}
      onValueCommitted={(now) => onCommit?.(now as number)}
    >
      <div className={css.sliderTop}>
        <Base.Label className={css.label}>{label}</Base.Label>
        <span>{mark} <output>{shown(value)}</output></span>
      </div>
      <Base.Control className={css.control}>
        <Base.Track className={css.track}>
          <Base.Indicator className={css.indicator} />
          <Base.Thumb
            className={css.knob} aria-label={label} getAriaValueText={() => shown(value)}
          />
        </Base.Track>
      </Base.Control>
    </Base.Root>
  );
}
