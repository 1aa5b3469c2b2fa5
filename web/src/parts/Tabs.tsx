import { Tabs as Base } from "@base-ui/react/tabs";
import type { ReactNode } from "react";
import css from "./Tabs.module.css";

export interface TabsProps<V extends string> {
  label: string;
  value: V;
  onChange: (value: V) => void;
  tabs: readonly { value: V; text: string; count?: number; panel: ReactNode }[];
}

export function Tabs<V extends string>({ label, value, onChange, tabs }: TabsProps<V>) {
  return (
    <Base.Root value={value} onValueChange={(now) => onChange(now as V)} className={css.root}>
      <Base.List className={css.list} aria-label={label}>
        {tabs.map((tab) => (
          <Base.Tab key={tab.value} value={tab.value} className={css.tab}>
            {tab.text}
            {tab.count ? <> <span className={css.count}>{tab.count}</span></> : null}
          </Base.Tab>
        ))}
      </Base.List>
      {tabs.map((tab) => (
        <Base.Panel key={tab.value} value={tab.value} className={css.panel}>{tab.panel}</Base.Panel>
      ))}
    </Base.Root>
  );
}
