import { ArrowUp, Braces, Paperclip, SlidersHorizontal, Square, Wrench, X } from "lucide-react";
import { useEffect, useRef, useState, type ClipboardEvent, type DragEvent } from "react";
import { IconButton } from "../parts/Button.tsx";
import { go } from "../route.ts";
import { ask, stop, useStreams } from "../store/answering.ts";
import { tellStorage, type Open } from "../store/chat.ts";
import { keepFile } from "../store/files.ts";
import { usePreferences } from "../store/preferences.ts";
import type { Attachment, Message } from "../store/records.ts";
import { tell } from "../store/toasts.ts";
import { bytes, t } from "../texts/index.ts";
import type { Over } from "./ChatView.tsx";
import css from "./Composer.module.css";
import { EDIT } from "./QuestionRow.tsx";
import { useDraft } from "./useDraft.ts";
import type { Chosen } from "./useModel.ts";

export interface ComposerProps {
  open: Open;
  path: readonly Message[];
  model: Chosen;
  onOver: (over: Over) => void;
}

/** The box. Its text leaves it only once the message is stored. */
export function Composer({ open, path, model, onOver }: ComposerProps) {
  const { id } = open.conversation;
  const { draft, change, hold, taken } = useDraft(id);
  const [isOver, setOver] = useState(false);
  const sends = usePreferences((wishes) => wishes.sendWithEnter);
  const running = useStreams((state) => path.find((each) => state.streams.has(each.id))?.id);
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const isReady = draft !== null && (draft.text.trim() !== "" || draft.blobs.length > 0);

  useEffect(() => {
    // On a phone the focus would open the keyboard over the conversation.
    if (matchMedia("(pointer: fine)").matches) box.current?.focus();
  }, []);

  const send = async () => {
    if (!draft || !isReady || running) return;
    // A draft that were stored after the message would come back as if it hadn't been sent.
    hold();
    const now = await ask(model.id, draft.text, draft.blobs, open.conversation.leaf);
    if (now === null) {
      change({});
      return;
    }
    taken();
    if (now !== id) go({ view: "chat", id: now }, { replace: true });
    box.current?.focus();
  };
  const attach = async (files: Iterable<File>) => {
    const made: Attachment[] = [];
    for (const file of files) {
      try {
        made.push(await keepFile(file));
      } catch (error) {
        if (error instanceof DOMException) tellStorage(error);
        else tell({ code: "file", message: (error as Error).message, hint: "", param: "" });
      }
    }
    if (made.length) change({ blobs: [...(draft?.blobs ?? []), ...made] });
  };
  const paste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    void attach(event.clipboardData.files);
  };
  const drop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    void attach(event.dataTransfer.files);
  };
  const onKey = (event: React.KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    const withControl = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && !event.shiftKey && (sends || withControl)) {
      event.preventDefault();
      void send();
    }
    if (event.key === "ArrowUp" && draft?.text === "") {
      const last = path.findLast((message) => message.role === "user");
      if (!last) return;
      event.preventDefault();
      dispatchEvent(new CustomEvent(EDIT, { detail: last.id }));
    }
  };

  return (
    <form
      className={css.composer}
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={drop}
    >
      <div className={css.box} data-over={isOver}>
        {draft && draft.blobs.length > 0 && (
          <ul className={css.files}>
            {draft.blobs.map((blob) => (
              <li key={blob.hash}>
                <span>{blob.name}</span>
                <small>{bytes(blob.bytes)}</small>
                <IconButton
                  small label={t.chat.removeFile(blob.name)} icon={<X aria-hidden />}
                  onClick={() => change({ blobs: draft.blobs.filter((each) => each !== blob) })}
                />
              </li>
            ))}
          </ul>
        )}
        <textarea
          ref={box} rows={1} className={css.text} aria-label={t.chat.message}
          placeholder={t.chat.placeholder} value={draft?.text ?? ""} readOnly={draft === null}
          onChange={(event) => change({ text: event.target.value })} onKeyDown={onKey}
          onPaste={paste} enterKeyHint={sends ? "send" : "enter"}
        />
        <div className={css.tools}>
          <input
            ref={picker} type="file" multiple hidden
            onChange={(event) => {
              void attach([...(event.target.files ?? [])]);
              event.target.value = "";
            }}
          />
          <IconButton
            label={t.chat.attach} icon={<Paperclip aria-hidden />}
            onClick={() => picker.current?.click()}
          />
          <SettingButtons open={open} onOver={onOver} />
          <span className={css.space} />
          {running ? (
            <IconButton
              key="stop" kind="primary" className={css.send} label={t.chat.stop}
              icon={<Square aria-hidden fill="currentColor" />} onClick={() => stop(running)}
            />
          ) : (
            <IconButton
              key="send" kind="primary" className={css.send} type="submit" label={t.chat.send}
              icon={<ArrowUp aria-hidden />} disabled={!isReady}
            />
          )}
        </div>
      </div>
    </form>
  );
}

/** The three kinds of settings; one that isn't at its default is marked. */
function SettingButtons({ open, onOver }: { open: Open; onOver: (over: Over) => void }) {
  const { sampler, system, schema, tools, thinking, probabilities } = open.conversation;
  const isSampled =
    Object.keys(sampler).length > 0 || system !== "" || thinking !== "auto" || probabilities;
  const marked = (label: string, isSet: boolean) => (isSet ? t.chat.isSet(label) : label);
  return (
    <>
      <IconButton
        label={marked(t.chat.settings.sampling, isSampled)}
        icon={<SlidersHorizontal aria-hidden />} className={isSampled ? css.set : undefined}
        onClick={() => onOver("sampling")}
      />
      <IconButton
        label={marked(t.chat.settings.form, schema !== "")} icon={<Braces aria-hidden />}
        className={schema ? css.set : undefined} onClick={() => onOver("form")}
      />
      <IconButton
        label={marked(t.chat.settings.tools, tools.length > 0)} icon={<Wrench aria-hidden />}
        className={tools.length ? css.set : undefined} onClick={() => onOver("tools")}
      />
    </>
  );
}
