import { ArrowLeft, Download as DownloadIcon, Search } from "lucide-react";
import { useEffect, useState, type FormEvent } from "react";
import { api } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import type { HubRepo, Problem } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { Empty, ProblemBox, Spinner } from "../parts/Feedback.tsx";
import { TextField } from "../parts/Field.tsx";
import { dayOf, t } from "../texts/index.ts";
import { HubRepoFiles } from "./HubRepoFiles.tsx";
import css from "./Models.module.css";
import { roundText } from "./numbers.ts";

const words = t.models.hub;

interface Found {
  query: string;
  repos: HubRepo[];
  cursor: string | null;
}

/** Searches the hub. The server asks it; this page asks the server. */
export function Hub({ isOffline, canManage }: { isOffline: boolean; canManage: boolean }) {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Found | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [asked, setAsked] = useState<{ query: string; cursor: string | null } | null>(null);
  const [repo, setRepo] = useState("");
  useEffect(() => {
    if (!asked) return;
    const giveUp = new AbortController();
    setProblem(null);
    api.hub(asked.query, asked.cursor, giveUp.signal).then(
      (page) => {
        setFound((known) => ({
          query: asked.query, cursor: page.cursor,
          repos: asked.cursor === null ? page.repos : [...(known?.repos ?? []), ...page.repos],
        }));
        setAsked(null);
      },
      (error: unknown) => {
        if (giveUp.signal.aborted) return;
        setProblem(asProblem(error, t.frame.unreachable));
        setAsked(null);
      },
    );
    return () => giveUp.abort();
  }, [asked]);

  if (isOffline) return <Empty title={words.offline}>{words.offlineHint}</Empty>;
  if (repo) {
    return (
      <>
        <Button
          small kind="quiet" icon={<ArrowLeft aria-hidden size={15} />} onClick={() => setRepo("")}
        >
          {words.back}
        </Button>
        <HubRepoFiles key={repo} repo={repo} canManage={canManage} />
      </>
    );
  }
  const search = (event: FormEvent) => {
    event.preventDefault();
    if (text.trim()) setAsked({ query: text.trim(), cursor: null });
  };
  return (
    <>
      <form className={css.search} role="search" onSubmit={search}>
        <TextField
          label={words.search} type="search" value={text} placeholder={words.placeholder}
          onChange={(event) => setText(event.target.value)}
        />
        <Button type="submit" icon={<Search aria-hidden size={16} />}>{words.send}</Button>
      </form>
      {problem && <ProblemBox problem={problem} />}
      {!found && !asked && !problem && <Empty title={words.ready}>{words.readyHint}</Empty>}
      {found && found.repos.length === 0 && !asked && <Empty title={words.none} />}
      {found && <Repos repos={found.repos} onOpen={setRepo} />}
      {asked && <p className={css.wait} role="status"><Spinner /> {words.search}</p>}
      {found && found.cursor !== null && !asked && (
        <Button small onClick={() => setAsked({ query: found.query, cursor: found.cursor })}>
          {words.more}
        </Button>
      )}
    </>
  );
}

function Repos({ repos, onOpen }: { repos: readonly HubRepo[]; onOpen: (repo: string) => void }) {
  return (
    <ul className={css.rows} aria-label={words.results}>
      {repos.map((each) => (
        <li key={each.repo}>
          <button type="button" className={css.rowLink} onClick={() => onOpen(each.repo)}>
            <span className={css.rowName}>{each.repo}</span>
            <span className={css.muted}>
              <DownloadIcon aria-hidden />
              {[
                words.downloads(roundText(each.downloads)), words.likes(roundText(each.likes)),
                each.updated && dayOf(Date.parse(each.updated)),
              ].filter(Boolean).join(" · ")}
            </span>
            {each.gated && <span className={css.muted}>{words.gated}</span>}
          </button>
        </li>
      ))}
    </ul>
  );
}
