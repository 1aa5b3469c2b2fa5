import { FileText, Pencil } from "lucide-react";
import { memo, useEffect, useState } from "react";
import { IconButton } from "../parts/Button.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { askInstead } from "../store/answering.ts";
import { keep, tellStorage } from "../store/chat.ts";
import * as db from "../store/db.ts";
import type { Attachment, Message } from "../store/records.ts";
import { bytes, t } from "../texts/index.ts";
import { Editor } from "./Editor.tsx";
import { CopyButton } from "./markdown/CodeBlock.tsx";
import css from "./Row.module.css";
import { MoreMenu, Siblings } from "./RowParts.tsx";

/** Dispatched on window with a message's id: opens its editor. */
export const EDIT = "unladen-edit";

/** Whether the editor of the message `id` is open. */
export function useEditing(id: string): [boolean, (editing: boolean) => void] {
  const [editing, setEditing] = useState(false);
  useEffect(() => {
    const onEdit = (event: Event) => {
      if ((event as CustomEvent<string>).detail === id) setEditing(true);
    };
    addEventListener(EDIT, onEdit);
    return () => removeEventListener(EDIT, onEdit);
  }, [id]);
  return [editing, setEditing];
}

/** Changes a text and nothing else: what follows it stays. */
export function saveText(message: Message, text: string): void {
  keep({ ...message, text }).catch(tellStorage);
}

export const QuestionRow = memo(function QuestionRow(props: { message: Message; model: string }) {
  const { message, model } = props;
  const [editing, setEditing] = useEditing(message.id);
  const who = message.role === "tool" ? t.chat.toolResult : t.chat.you;
  return (
    <article className={css.question} data-message={message.id} aria-label={who}>
      <h2 className="unseen">{who}</h2>
      {message.blobs.length > 0 && (
        <ul className={css.files}>
          {message.blobs.map((blob) => <li key={blob.hash}><File blob={blob} /></li>)}
        </ul>
      )}
      {editing ? (
        <Editor
          text={message.text} onCancel={() => setEditing(false)}
          onSave={(text) => {
            saveText(message, text);
            setEditing(false);
          }}
          {...(message.role === "user" && {
            second: t.chat.saveAndSend,
            onSecond: (text: string) => {
              void askInstead(message, text, model);
              setEditing(false);
            },
          })}
        />
      ) : (
        message.text && <div className={css.bubble}>{message.text}</div>
      )}
      {!editing && (
        <div className={css.actions}>
          <Siblings id={message.id} />
          <CopyButton text={message.text} label={t.chat.copy} />
          <IconButton
            small label={t.chat.edit} icon={<Pencil aria-hidden />}
            onClick={() => setEditing(true)}
          />
          <MoreMenu message={message} />
        </div>
      )}
    </article>
  );
});

/** A file of a question; its text opens in a dialog. */
function File({ blob }: { blob: Attachment }) {
  const [text, setText] = useState<string | null>(null);
  const open = () => {
    db.blobs.get(blob.hash)
      .then(async (data) => setText((await data?.text()) ?? t.chat.fileGone))
      .catch(tellStorage);
  };
  return (
    <>
      <button type="button" className={css.file} onClick={open}>
        <FileText aria-hidden />
        <span>{blob.name}</span>
        <small>{bytes(blob.bytes)}</small>
      </button>
      <Dialog open={text !== null} onClose={() => setText(null)} title={blob.name} shape="wide">
        <pre className={css.plain} tabIndex={0}>{text}</pre>
      </Dialog>
    </>
  );
}
