import { CircleCheck, Download as DownloadIcon } from "lucide-react";
import { useEffect, useState } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { Download, HubFile, HubFiles, Problem } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { Empty, ProblemBox, Progress, Spinner } from "../parts/Feedback.tsx";
import { hrefOf } from "../route.ts";
import { bytes, t } from "../texts/index.ts";
import { downloadOf, shareOf } from "./downloads.ts";
import { FitLine } from "./FitLine.tsx";
import { useFits, type Known } from "./fits.ts";
import css from "./Models.module.css";
import { startDownload, useKnownDownloads } from "./useDownloads.ts";

const words = t.models.hub;

/** The models of a repository: sizes, whether they fit, and how to get them. */
export function HubRepoFiles({ repo, canManage }: { repo: string; canManage: boolean }) {
  const downloads = useKnownDownloads();
  const nDone = downloads.filter((each) => each.state === "done").length;
  const [found, setFound] = useState<HubFiles | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    const giveUp = new AbortController();
    api.hubFiles(repo, giveUp.signal).then(setFound, (error: unknown) => {
      if (!giveUp.signal.aborted) setProblem(asProblem(error, t.frame.unreachable));
    });
    return () => giveUp.abort();
  }, [repo, nDone]);
  const fits = useFits(found?.files.map((file) => file.ref) ?? [], null);
  return (
    <section aria-label={words.files(repo)} className={css.repo}>
      <h2 className={css.repoName}>{repo}</h2>
      {found?.gated && <p className={css.muted}>{words.gated}</p>}
      {problem && <ProblemBox problem={problem} />}
      {!found && !problem && <p className={css.wait}><Spinner /> {words.files(repo)}</p>}
      {found?.files.length === 0 && <Empty title={words.noFiles} />}
      <ul className={css.rows}>
        {found?.files.map((file) => (
          <li key={file.ref} className={css.fileRow}>
            <File
              file={file} fit={fits[file.ref]} download={downloadOf(downloads, file.ref)}
              canManage={canManage}
            />
          </li>
        ))}
      </ul>
    </section>
  );
}

function File({ file, fit, download, canManage }: {
  file: HubFile; fit: Known | undefined; download: Download | undefined; canManage: boolean;
}) {
  const about = [
    file.quant, bytes(file.bytes), file.parts > 1 && words.parts(file.parts),
  ].filter(Boolean).join(" · ");
  return (
    <>
      <span className={css.fileWords}>
        <span className={css.rowName}>{file.name}</span>
        <span className={css.muted}>{about}</span>
        {file.parts_missing > 0
          ? <span className={css.bad}>{t.models.fit.partsMissing(file.parts_missing)}</span>
          : <FitLine fit={fit} />}
      </span>
      {file.is_here ? (
        <a
          className={css.here} href={hrefOf({ view: "models", id: file.ref })}
          aria-label={words.hereOf(file.name)}
        >
          <CircleCheck aria-hidden /> {words.here}
        </a>
      ) : download ? (
        <span className={css.small}>
          {t.models.downloads.states[download.state]}
          <Progress label={t.models.downloads.percent(file.name)} share={shareOf(download)} />
        </span>
      ) : canManage && file.parts_missing === 0 && (
        <Button
          small icon={<DownloadIcon aria-hidden size={15} />}
          aria-label={words.downloadOf(file.name)} onClick={() => void startDownload(file.ref)}
        >
          {words.download}
        </Button>
      )}
    </>
  );
}
