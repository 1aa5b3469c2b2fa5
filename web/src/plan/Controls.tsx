import { Check, Lock } from "lucide-react";
import { useEffect, useId, useState, type ReactNode } from "react";
import type { DeviceState, Options, Resolved } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { TextField } from "../parts/Field.tsx";
import { Select } from "../parts/Select.tsx";
import { Slider } from "../parts/Slider.tsx";
import { count, t } from "../texts/index.ts";
import css from "./Controls.module.css";
import { choiceOf, choicesOf, KNOWN, namesIn, NONE, valueOf, type Name } from "./options.ts";
import { nearest, sharesIn, tokenSteps } from "./scale.ts";

export interface ControlsProps {
  /** The options as the last plan has them. */
  resolved: Readonly<Record<string, Resolved>>;
  /** What is set; all others are automatic. */
  wishes: Options;
  devices: readonly DeviceState[];
  /** The names of devices that compute in the host's memory. */
  hosts: ReadonlySet<string>;
  onWishes: (wishes: Options) => void;
}

/** The options of a plan, each automatic or set. */
export function Controls({ resolved, wishes, devices, hosts, onWishes }: ControlsProps) {
  const used = resolved["devices"]?.value;
  const nGpus = Array.isArray(used) ? used.filter((name) => !hosts.has(String(name))).length : 0;
  const rest = namesIn(resolved, nGpus, false);
  const control = (name: Name) => (
    <Control
      key={name} name={name} resolved={resolved[name] as Resolved} devices={devices}
      isSet={name in wishes} wish={wishes[name]}
      onSet={(value) => onWishes({ ...wishes, [name]: value })}
      onRelease={() => onWishes(
        Object.fromEntries(Object.entries(wishes).filter(([each]) => each !== name)))}
    />
  );
  return (
    <section aria-label={t.plan.controls}>
      <div className={css.title}>
        <h3>{t.plan.controls}</h3>
        {Object.keys(wishes).length > 0 && (
          <Button small kind="quiet" onClick={() => onWishes({})}>{t.plan.reset}</Button>
        )}
      </div>
      <div className={css.grid}>{namesIn(resolved, nGpus, true).map(control)}</div>
      {rest.length > 0 && (
        <details className={css.more}>
          <summary>{t.plan.more}</summary>
          <div className={css.grid}>{rest.map(control)}</div>
        </details>
      )}
    </section>
  );
}

interface ControlProps {
  name: Name;
  resolved: Resolved;
  devices: readonly DeviceState[];
  isSet: boolean;
  wish: unknown;
  onSet: (value: unknown) => void;
  onRelease: () => void;
}

function Control(props: ControlProps) {
  const { name, resolved, isSet, wish, onSet, onRelease } = props;
  const value = isSet ? wish : resolved.value;
  const label = t.plan.options[name];
  const mark = (
    <Mark name={label} isSet={isSet} onSwitch={() => (isSet ? onRelease() : onSet(value))} />
  );
  switch (KNOWN[name].form) {
    case "number":
    case "tokens":
      return <NumberControl {...props} value={value} label={label} mark={mark} />;
    case "choice":
      return (
        <Headed label={label} mark={mark}>
          <Select
            bare label={label} value={choiceOf(value)}
            items={choicesOf(name, resolved, value).map((each) => ({
              value: each,
              text: each === NONE ? t.plan.unknownDevice : t.plan.choices[each] ?? each,
            }))}
            onChange={(choice) => onSet(valueOf(choice))}
          />
        </Headed>
      );
    case "shares":
      return <SharesControl {...props} value={value} label={label} mark={mark} />;
    case "devices":
      return <DevicesControl {...props} value={value} label={label} mark={mark} />;
  }
}

/** Says whether a value is automatic or set, and switches between the two. */
function Mark({ name, isSet, onSwitch }: {
  name: string; isSet: boolean; onSwitch: () => void;
}) {
  const text = isSet ? t.plan.release(name) : t.plan.keep(name);
  return (
    <button
      type="button" className={`${css.mark} ${isSet ? css.set : ""}`} aria-label={text} title={text}
      onClick={onSwitch}
    >
      {isSet && <Lock aria-hidden />}
      {isSet ? t.plan.set : t.plan.auto}
    </button>
  );
}

function Headed({ label, mark, children }: {
  label: string; mark: ReactNode; children: ReactNode;
}) {
  return (
    <div className={css.control}>
      <div className={css.head}><span className={css.label} aria-hidden>{label}</span>{mark}</div>
      {children}
    </div>
  );
}

type ValueProps = ControlProps & { value: unknown; label: string; mark: ReactNode };

function NumberControl({ name, resolved, value, label, mark, onSet }: ValueProps) {
  const least = resolved.least ?? 0;
  const greatest = Math.max(least, resolved.greatest ?? least);
  const number = numberOf(value, greatest);
  if (KNOWN[name].form === "number") {
    return (
      <Slider
        label={label} mark={mark} value={number} least={least} greatest={greatest}
        shown={(now) => t.plan.of(count(now), count(greatest))} onChange={onSet}
      />
    );
  }
  const steps = tokenSteps(least, greatest);
  const at = nearest(steps, number);
  // A value that is between two steps is shown as it is.
  const shown = (position: number) =>
    t.plan.tokens(count(position === at ? number : steps[position] ?? number));
  return (
    <Slider
      label={label} mark={mark} value={at} least={0} greatest={Math.max(1, steps.length - 1)}
      shown={shown} onChange={(position) => onSet(steps[position] ?? number)}
    />
  );
}

function SharesControl({ value, label, mark, isSet, onSet }: ValueProps) {
  const [text, setText] = useState(isSet && Array.isArray(value) ? value.join(", ") : "");
  useEffect(() => {
    if (!isSet) setText("");
  }, [isSet]);
  const isWrong = text.trim() !== "" && sharesIn(text) === null;
  return (
    <div className={css.control}>
      <div className={css.overlay}>{mark}</div>
      <TextField
        label={label} value={text} inputMode="decimal" placeholder={t.plan.sharesHint}
        wrong={isWrong ? t.plan.sharesWrong : ""}
        onChange={(event) => {
          setText(event.target.value);
          const shares = sharesIn(event.target.value);
          if (shares) onSet(shares);
        }}
      />
    </div>
  );
}

function DevicesControl({ resolved, value, devices, label, mark, onSet }: ValueProps) {
  const names = resolved.choices ?? devices.map((device) => device.name);
  const chosen = Array.isArray(value) ? value.map(String) : [];
  const id = useId();
  const isOn = (name: string) => chosen.some((each) => each === name || `${each}:0` === name);
  return (
    <div className={css.control} role="group" aria-labelledby={id}>
      <div className={css.head}><span className={css.label} id={id}>{label}</span>{mark}</div>
      <div className={css.devices}>
        {names.map((name) => (
          <label
            key={name} className={css.device}
            title={devices.find((device) => device.name === name)?.description}
          >
            <input
              type="checkbox" checked={isOn(name)}
              // The last device can't be taken away.
              disabled={isOn(name) && chosen.length === 1}
              onChange={(event) => onSet(names.filter((each) =>
                each === name ? event.target.checked : isOn(each)))}
            />
            <span className={css.box} aria-hidden><Check /></span>
            {name}
          </label>
        ))}
      </div>
    </div>
  );
}

/** `value` as a number: all layers are the most. */
function numberOf(value: unknown, greatest: number): number {
  const number = typeof value === "number" ? value : NaN;
  return Number.isFinite(number) && number >= 0 ? number : greatest;
}
