import { Download as DownloadIcon, Pause, Play, X } from "lucide-react";
import { useState } from "react";
import type { Download } from "../api/types.ts";
import { IconButton } from "../parts/Button.tsx";
import { Confirm } from "../parts/Dialog.tsx";
import { Empty, ProblemBox, Progress } from "../parts/Feedback.tsx";
import { hrefOf } from "../route.ts";
import { bytes, duration, t } from "../texts/index.ts";
import { actionsOf, nameOf, secondsLeft, shareOf } from "./downloads.ts";
import css from "./Models.module.css";
import { changeDownload, removeDownload } from "./useDownloads.ts";

const words = t.models.downloads;

/** The downloads, the newest first. */
export function Downloads({ downloads }: { downloads: readonly Download[] }) {
  const [leaving, setLeaving] = useState<Download | null>(null);
  if (downloads.length === 0) {
    return <Empty icon={<DownloadIcon aria-hidden />} title={words.none}>{words.noneHint}</Empty>;
  }
  const remove = (download: Download) => {
    // Nothing is lost where all or nothing has arrived.
    if (download.state === "done" || download.done === 0) void removeDownload(download.id);
    else setLeaving(download);
  };
  return (
    <>
      <ul className={css.rows} aria-label={words.list}>
        {[...downloads].reverse().map((download) => (
          <li key={download.id} className={css.download}>
            <Row download={download} onRemove={() => remove(download)} />
          </li>
        ))}
      </ul>
      <Confirm
        open={leaving !== null} onClose={() => setLeaving(null)} title={words.removeTitle}
        text={leaving ? words.removeText(nameOf(leaving.ref), bytes(leaving.done)) : ""}
        action={words.removeAction} onConfirm={() => leaving && void removeDownload(leaving.id)}
      />
    </>
  );
}

function Row({ download, onRemove }: { download: Download; onRemove: () => void }) {
  const { id, ref, state, done, total, rate, error } = download;
  const name = nameOf(ref);
  const actions = actionsOf(download);
  const left = secondsLeft(download);
  const about = [
    words.states[state],
    total > 0 && (state === "done" ? bytes(total) : words.of(bytes(done), bytes(total))),
    state === "running" && rate > 0 && words.rate(bytes(rate)),
    left !== null && words.left(duration(left)),
  ].filter(Boolean).join(" · ");
  return (
    <>
      <div className={css.downloadTop}>
        <span className={css.fileWords}>
          <span className={css.rowName}>{ref}</span>
          <span className={css.muted}>{about}</span>
        </span>
        {state === "done" && (
          <a className={css.here} href={hrefOf({ view: "models", id: ref })}>{words.open}</a>
        )}
        {actions.includes("pause") && (
          <IconButton
            small label={words.pause(name)} icon={<Pause aria-hidden />}
            onClick={() => void changeDownload(id, "pause")}
          />
        )}
        {actions.includes("resume") && (
          <IconButton
            small label={words.resume(name)} icon={<Play aria-hidden />}
            onClick={() => void changeDownload(id, "resume")}
          />
        )}
        <IconButton
          small label={state === "done" ? words.forget(name) : words.remove(name)}
          icon={<X aria-hidden />} onClick={onRemove}
        />
      </div>
      {state !== "done" && <Progress label={words.percent(name)} share={shareOf(download)} />}
      {error && <ProblemBox problem={error} />}
    </>
  );
}
