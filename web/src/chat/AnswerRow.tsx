import { Pencil, RefreshCw, Sparkles, StepForward } from "lucide-react";
import { memo, useState, useSyncExternalStore } from "react";
import { Button, IconButton } from "../parts/Button.tsx";
import { ProblemBox } from "../parts/Feedback.tsx";
import { again, goOn, useStreams, type Stream } from "../store/answering.ts";
import { append, tellStorage, useChat } from "../store/chat.ts";
import type { LiveView } from "../store/live.ts";
import { newMessage, type Message } from "../store/records.ts";
import { count, duration, rate, t } from "../texts/index.ts";
import { Editor } from "./Editor.tsx";
import { shownSoFar } from "./markdown/blocks.ts";
import { CopyButton } from "./markdown/CodeBlock.tsx";
import { blocksFor } from "./markdown/parsed.ts";
import { Blocks } from "./markdown/render.tsx";
import { saveText, useEditing } from "./QuestionRow.tsx";
import { Reasoning } from "./Reasoning.tsx";
import css from "./Row.module.css";
import { MoreMenu, Siblings } from "./RowParts.tsx";
import type { Row } from "./rows.ts";
import { Tokens } from "./Tokens.tsx";
import { ToolCalls } from "./ToolCalls.tsx";
import { Waiting } from "./Waiting.tsx";

const never = () => () => undefined;
const noView = () => null;

/** What a running answer shows now; null for one that doesn't run here. */
function useLive(stream: Stream | undefined): LiveView | null {
  return useSyncExternalStore<LiveView | null>(
    stream?.live.subscribe ?? never, stream?.live.snapshot ?? noView,
  );
}

export interface AnswerRowProps {
  row: Row;
  model: string;
  isLast: boolean;
}

export const AnswerRow = memo(function AnswerRow({ row, model, isLast }: AnswerRowProps) {
  const { message, results } = row;
  const stream = useStreams((state) => state.streams.get(message.id));
  const isElsewhere = useChat((chat) => chat.elsewhere.has(message.id));
  const live = useLive(stream);
  const [editing, setEditing] = useEditing(message.id);
  const [tokens, setTokens] = useState(false);
  const text = live?.text ?? message.text;
  const calls = live?.calls ?? message.tool_calls;
  const runs = stream !== undefined || (message.status === "streaming" && isElsewhere);
  const blocks = stream
    ? stream.live.parser.update(shownSoFar(text))
    : blocksFor(message.id, text);
  return (
    <article className={css.answer} data-message={message.id} aria-label={t.chat.answer}>
      <h2 className={css.who}>
        <Sparkles aria-hidden />
        <span className="unseen">{t.chat.answerOf}</span> {message.model || t.chat.answer}
      </h2>
      <Reasoning
        id={message.id} live={stream?.live ?? null} text={live?.reasoning ?? message.reasoning}
        seconds={live?.reasoning_s ?? message.reasoning_s} thinks={runs && !text && !calls.length}
      />
      {editing ? (
        <Editor
          text={message.text} onCancel={() => setEditing(false)}
          onSave={(changed) => {
            saveText(message, changed);
            setEditing(false);
          }}
          second={t.chat.saveAsBranch}
          onSecond={(changed) => {
            saveBeside(message, changed);
            setEditing(false);
          }}
        />
      ) : tokens && !runs ? (
        <Tokens message={message} />
      ) : (
        text && <Blocks blocks={blocks} live={runs} />
      )}
      {calls.length > 0 && (
        <ToolCalls message={message} calls={calls} results={results} runs={runs} model={model} />
      )}
      {runs && !text && !calls.length && !(live?.reasoning ?? message.reasoning) && (
        <Waiting model={message.model} />
      )}
      {runs && isElsewhere && <p className={css.note}>{t.chat.elsewhere}</p>}
      {!runs && !editing && (
        <End
          message={message} model={model} isLast={isLast} tokens={tokens} onTokens={setTokens}
          onEdit={() => setEditing(true)}
        />
      )}
    </article>
  );
});

/** A changed answer as a branch of its own. */
function saveBeside(message: Message, text: string): void {
  const open = useChat.getState().open;
  if (!open) return;
  const beside = newMessage({
    conversation: message.conversation, parent: message.parent, role: "assistant", text,
    model: message.model,
  });
  append(open, [beside]).catch(tellStorage);
}

interface EndProps {
  message: Message;
  model: string;
  isLast: boolean;
  tokens: boolean;
  onTokens: (shown: boolean) => void;
  onEdit: () => void;
}

/** What stands below an answer that has ended: why, and what can be done. */
function End({ message, model, isLast, tokens, onTokens, onEdit }: EndProps) {
  const canGoOn = isLast && message.text !== "" && message.tool_calls.length === 0;
  const retry = () => void again(message, model);
  const proceed = () => void goOn(message, model);
  return (
    <>
      {message.status === "failed" && message.error && (
        <div className={css.problem}>
          <ProblemBox problem={message.error}>
            <Button small onClick={retry}>{t.chat.retry}</Button>
            {canGoOn && <Button small onClick={proceed}>{t.chat.continue}</Button>}
          </ProblemBox>
        </div>
      )}
      {message.status === "stopped" && <p className={css.note}>{t.chat.stopped}</p>}
      {message.finish === "length" && <p className={css.note}>{t.chat.atLimit}</p>}
      <div className={css.actions}>
        <Siblings id={message.id} />
        <CopyButton text={message.text} label={t.chat.copy} />
        <IconButton
          small label={t.chat.again} icon={<RefreshCw aria-hidden />} onClick={retry}
        />
        {canGoOn && (
          <IconButton
            small label={t.chat.continue} icon={<StepForward aria-hidden />} onClick={proceed}
          />
        )}
        <IconButton small label={t.chat.edit} icon={<Pencil aria-hidden />} onClick={onEdit} />
        <MoreMenu
          message={message}
          items={[{ text: t.chat.tokens, checked: tokens, run: () => onTokens(!tokens) }]}
        />
        <Stats message={message} />
      </div>
    </>
  );
}

function Stats({ message: { timings } }: { message: Message }) {
  if (!timings?.predicted_n) return null;
  const seconds = (timings.predicted_ms ?? 0) / 1000;
  return (
    <span className={css.stats}>
      {timings.predicted_per_second ? `${t.chat.speed(rate(timings.predicted_per_second))} · ` : ""}
      {t.chat.nTokens(timings.predicted_n, count(timings.predicted_n))} · {duration(seconds)}
    </span>
  );
}
