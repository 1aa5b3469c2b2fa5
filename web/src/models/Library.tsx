import { Boxes } from "lucide-react";
import { useState } from "react";
import type { ModelState, Problem, StoredFile } from "../api/types.ts";
import { Empty, ProblemBox, Spinner } from "../parts/Feedback.tsx";
import { TextField } from "../parts/Field.tsx";
import { Button } from "../parts/Button.tsx";
import { hrefOf } from "../route.ts";
import { bytes, t } from "../texts/index.ts";
import { FitLine } from "./FitLine.tsx";
import type { Known } from "./fits.ts";
import css from "./Models.module.css";
import { paramsText } from "./numbers.ts";

export interface LibraryProps {
  /** null until they are known. */
  files: readonly StoredFile[] | null;
  problem: Problem | null;
  models: readonly ModelState[];
  fits: Readonly<Record<string, Known>>;
  /** The model whose details are open. */
  open: string;
  onRefresh: () => void;
}

/** The models of all stores of this machine. */
export function Library({ files, problem, models, fits, open, onRefresh }: LibraryProps) {
  const [text, setText] = useState("");
  if (problem) {
    return (
      <ProblemBox problem={problem}>
        <Button small onClick={onRefresh}>{t.models.refresh}</Button>
      </ProblemBox>
    );
  }
  if (!files) return <p className={css.wait}><Spinner /> {t.models.loading}</p>;
  if (files.length === 0) {
    return <Empty icon={<Boxes aria-hidden />} title={t.models.none}>{t.models.noneHint}</Empty>;
  }
  const wanted = text.trim().toLowerCase().split(/\s+/);
  const found = files.filter((file) => {
    const all = [file.ref, file.path_label, file.arch, file.quant].join(" ").toLowerCase();
    return wanted.every((word) => all.includes(word));
  });
  return (
    <>
      <TextField
        label={t.models.filter} type="search" value={text} placeholder={t.models.filterHint}
        onChange={(event) => setText(event.target.value)}
      />
      {found.length === 0 && <p className={css.wait}>{t.models.noneFound(text)}</p>}
      <ul className={css.rows}>
        {found.map((file) => (
          <li key={file.ref}>
            <Row
              file={file} fit={fits[file.ref]} isOpen={open === file.ref || open === file.model}
              model={models.find((model) => model.id === file.model)}
            />
          </li>
        ))}
      </ul>
    </>
  );
}

function Row({ file, fit, isOpen, model }: {
  file: StoredFile; fit: Known | undefined; isOpen: boolean; model: ModelState | undefined;
}) {
  const about = [
    file.quant, bytes(file.bytes), file.arch, paramsText(file.parameters),
    t.models.stores[file.store] ?? file.store,
  ].filter(Boolean).join(" · ");
  return (
    <a
      className={css.rowLink} href={hrefOf({ view: "models", id: file.ref })}
      aria-current={isOpen ? "true" : undefined}
    >
      <span className={css.rowTop}>
        <span className={css.rowName}>{file.ref}</span>
        {model && model.state !== "unloaded" && <StateBadge state={model.state} />}
      </span>
      <span className={css.muted}>{about}</span>
      {file.problem || file.parts_missing > 0 ? (
        <span className={css.bad}>
          {file.problem || t.models.fit.partsMissing(file.parts_missing)}
        </span>
      ) : <FitLine fit={fit} />}
    </a>
  );
}

export function StateBadge({ state }: { state: ModelState["state"] }) {
  return <span className={`${css.badge} ${css[state]}`}>{t.models.state[state]}</span>;
}
