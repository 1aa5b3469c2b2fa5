import { ArrowLeft, MessageSquare } from "lucide-react";
import type { ModelState, StoredFile } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { Empty, ProblemBox } from "../parts/Feedback.tsx";
import { PlanBody } from "../plan/PlanBody.tsx";
import { go, hrefOf } from "../route.ts";
import { prefer } from "../store/preferences.ts";
import { bytes, count, t } from "../texts/index.ts";
import css from "./Detail.module.css";
import { StateBadge } from "./Library.tsx";
import { paramsText } from "./numbers.ts";

const words = t.models.facts;

export interface DetailProps {
  id: string;
  file: StoredFile | undefined;
  model: ModelState | undefined;
  /** All files of this machine are known. */
  isKnown: boolean;
}

/** A model: what it is, its plan, and how to load it. */
export function Detail({ id, file, model, isKnown }: DetailProps) {
  return (
    <article className={css.detail} aria-label={model?.id ?? file?.ref ?? id}>
      <a className={css.back} href={hrefOf({ view: "models", id: "" })}>
        <ArrowLeft aria-hidden size={16} /> {t.models.back}
      </a>
      {!file && !model ? (
        isKnown && <Empty title={t.models.unknown(id)}>{t.models.unknownHint}</Empty>
      ) : (
        <Known id={model?.id ?? file?.ref ?? id} file={file} model={model} />
      )}
    </article>
  );
}

function Known({ id, file, model }: Omit<DetailProps, "isKnown">) {
  const chat = () => {
    prefer({ model: id });
    go({ view: "chat", id: "" });
  };
  return (
    <>
      <header className={css.header}>
        <h2 className={css.name}>{id}</h2>
        {model && <StateBadge state={model.state} />}
        {model?.state === "ready" && model.can.includes("chat") && (
          <Button small icon={<MessageSquare aria-hidden size={15} />} onClick={chat}>
            {t.models.chat}
          </Button>
        )}
      </header>
      <Facts file={file} model={model} />
      {file?.problem ? (
        <ProblemBox problem={{ code: "", message: file.problem, hint: "", param: "" }} />
      ) : (
        <PlanBody key={id} id={id} source={model?.ref ?? file?.ref ?? id} model={model} />
      )}
    </>
  );
}

function Facts({ file, model }: { file: StoredFile | undefined; model: ModelState | undefined }) {
  const context = file?.context || model?.trained_context || 0;
  const facts: [string, string][] = [
    [words.size, bytes(file?.bytes || model?.bytes || 0)],
    [words.quant, file?.quant || model?.quant || t.models.quantless],
    [words.arch, file?.arch || model?.arch || ""],
    [words.parameters, paramsText(file?.parameters || model?.parameters || 0)],
    [words.context, context ? words.tokens(count(context)) : ""],
    [words.file, file?.path_label ?? ""],
    [words.store, file ? t.models.stores[file.store] ?? file.store : ""],
    [words.can, model?.can.join(", ") ?? ""],
    [words.names, model?.aliases.join(", ") ?? ""],
  ];
  return (
    <dl className={css.facts} aria-label={words.label}>
      {facts.filter(([, value]) => value).map(([name, value]) => (
        <div key={name}><dt>{name}</dt><dd>{value}</dd></div>
      ))}
    </dl>
  );
}
