import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import { Button, IconButton } from "../parts/Button.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { TextArea, TextField } from "../parts/Field.tsx";
import { Select } from "../parts/Select.tsx";
import { Switch } from "../parts/Switch.tsx";
import { Tabs } from "../parts/Tabs.tsx";
import { changeOpen } from "../store/chat.ts";
import type { Conversation, Sampler, Thinking, Tool } from "../store/records.ts";
import { isToolName, wrongJson } from "../store/request.ts";
import { t } from "../texts/index.ts";
import type { Over } from "./ChatView.tsx";
import css from "./SettingsPanel.module.css";
import type { Chosen } from "./useModel.ts";

type Tab = "sampling" | "form" | "tools";

export interface SettingsPanelProps {
  tab: Tab;
  onTab: (over: Over) => void;
  onClose: () => void;
  conversation: Conversation;
  model: Chosen;
}

/** How answers of this conversation are asked for. */
export default function SettingsPanel(props: SettingsPanelProps) {
  const { tab, onTab, onClose, conversation, model } = props;
  return (
    <Dialog open onClose={onClose} title={t.chat.settings.title} shape="side">
      <Tabs<Tab>
        label={t.chat.settings.title} value={tab} onChange={onTab}
        tabs={[
          {
            value: "sampling", text: t.chat.settings.sampling,
            panel: <Sampling conversation={conversation} model={model} />,
          },
          {
            value: "form", text: t.chat.settings.form, panel: <Form conversation={conversation} />,
          },
          {
            value: "tools", text: t.chat.settings.tools, count: conversation.tools.length,
            panel: <Tools tools={conversation.tools} knows={model.state?.chat.tools ?? true} />,
          },
        ]}
      />
    </Dialog>
  );
}

interface NumberSetting {
  name: Exclude<keyof Sampler, "stop">;
  least: number;
  greatest: number;
  whole?: boolean;
}

const NUMBERS: readonly NumberSetting[] = [
  { name: "temperature", least: 0, greatest: 100 },
  { name: "top_p", least: 0, greatest: 1 },
  { name: "top_k", least: -1, greatest: 1e6, whole: true },
  { name: "min_p", least: 0, greatest: 1 },
  { name: "repeat_penalty", least: 0.01, greatest: 100 },
  { name: "presence_penalty", least: -100, greatest: 100 },
  { name: "frequency_penalty", least: -100, greatest: 100 },
  { name: "max_tokens", least: 1, greatest: 1e9, whole: true },
  { name: "seed", least: 0, greatest: Number.MAX_SAFE_INTEGER, whole: true },
];

function Sampling({ conversation, model }: { conversation: Conversation; model: Chosen }) {
  const { sampler, system, thinking, probabilities } = conversation;
  const change = (changes: Partial<Conversation>) => void changeOpen(changes);
  const efforts: readonly Thinking[] = ["auto", "none", "low", "medium", "high"];
  return (
    <div className={css.rows}>
      <TextArea
        label={t.chat.system} hint={t.chat.systemHint} value={system} rows={4}
        onChange={(event) => change({ system: event.target.value })}
      />
      {(model.state?.chat.thinking ?? false) && (
        <Select
          label={t.chat.thinkingSetting} value={thinking}
          onChange={(value) => change({ thinking: value })}
          items={efforts.map((value) => ({ value, text: t.chat.efforts[value] }))}
        />
      )}
      <div className={css.numbers}>
        {NUMBERS.map((setting) => (
          <NumberField
            key={setting.name} setting={setting} value={sampler[setting.name]}
            onChange={(value) => {
              const { [setting.name]: _, ...others } = sampler;
              change({
                sampler: value === undefined ? others : { ...others, [setting.name]: value },
              });
            }}
          />
        ))}
      </div>
      <TextArea
        label={t.chat.stops} hint={t.chat.stopsHint} rows={2} value={(sampler.stop ?? []).join("\n")}
        onChange={(event) => {
          const stop = event.target.value.split("\n").filter((line) => line !== "");
          const { stop: _, ...others } = sampler;
          change({ sampler: stop.length ? { ...others, stop } : others });
        }}
      />
      <Switch
        label={t.chat.askProbabilities} checked={probabilities}
        onChange={(value) => change({ probabilities: value })}
      />
    </div>
  );
}

interface NumberFieldProps {
  setting: NumberSetting;
  value: number | undefined;
  onChange: (value: number | undefined) => void;
}

/** A number that may be empty: then the server decides. A wrong one isn't taken. */
function NumberField({ setting, value, onChange }: NumberFieldProps) {
  const [text, setText] = useState(value === undefined ? "" : String(value));
  const given = Number(text);
  const isRight = text.trim() === "" || (
    Number.isFinite(given) && given >= setting.least && given <= setting.greatest &&
    (!setting.whole || Number.isInteger(given))
  );
  return (
    <TextField
      label={t.chat.samplers[setting.name]} inputMode="decimal" placeholder={t.chat.byServer}
      value={text} wrong={isRight ? "" : t.chat.outside(setting.least, setting.greatest)}
      onChange={(event) => {
        const now = event.target.value.replace(",", ".");
        setText(now);
        const number = Number(now);
        if (now.trim() === "") onChange(undefined);
        else if (
          Number.isFinite(number) && number >= setting.least && number <= setting.greatest &&
          (!setting.whole || Number.isInteger(number))
        )
          onChange(number);
      }}
    />
  );
}

function Form({ conversation: { schema } }: { conversation: Conversation }) {
  const wrong = wrongJson(schema);
  return (
    <div className={css.rows}>
      <TextArea
        label={t.chat.schema} hint={t.chat.schemaHint} mono rows={14} spellCheck={false}
        value={schema} wrong={wrong && t.chat.wrongSetting.schema(wrong)}
        placeholder={SCHEMA_EXAMPLE}
        onChange={(event) => void changeOpen({ schema: event.target.value })}
      />
    </div>
  );
}

const SCHEMA_EXAMPLE = JSON.stringify(
  { type: "object", properties: { name: { type: "string" } }, required: ["name"] }, null, 2,
);

function Tools({ tools, knows }: { tools: readonly Tool[]; knows: boolean }) {
  const set = (changed: Tool[]) => void changeOpen({ tools: changed });
  const change = (i: number, changes: Partial<Tool>) =>
    set(tools.map((tool, j) => (i === j ? { ...tool, ...changes } : tool)));
  return (
    <div className={css.rows}>
      <p className={css.text}>{knows ? t.chat.toolsText : t.chat.noTools}</p>
      {tools.map((tool, i) => {
        const wrong = wrongJson(tool.parameters);
        return (
          <fieldset key={i} className={css.tool}>
            <legend className="unseen">{tool.name || t.chat.newTool}</legend>
            <div className={css.toolHead}>
              <TextField
                label={t.chat.toolName} value={tool.name}
                hint={tool.name ? "" : t.chat.toolNameRule}
                wrong={tool.name && !isToolName(tool.name) ? t.chat.toolNameRule : ""}
                onChange={(event) => change(i, { name: event.target.value })}
              />
              <IconButton
                label={t.chat.removeTool(tool.name)} icon={<Trash2 aria-hidden />}
                onClick={() => set(tools.filter((_, j) => j !== i))}
              />
            </div>
            <TextField
              label={t.chat.toolDescription} value={tool.description}
              onChange={(event) => change(i, { description: event.target.value })}
            />
            <TextArea
              label={t.chat.toolParameters} mono rows={6} spellCheck={false}
              placeholder={SCHEMA_EXAMPLE} value={tool.parameters}
              wrong={wrong && t.chat.wrongSetting.tools(wrong)}
              onChange={(event) => change(i, { parameters: event.target.value })}
            />
          </fieldset>
        );
      })}
      <div>
        <Button
          icon={<Plus size={16} aria-hidden />}
          onClick={() => set([...tools, { name: "", description: "", parameters: "" }])}
        >
          {t.chat.addTool}
        </Button>
      </div>
    </div>
  );
}
