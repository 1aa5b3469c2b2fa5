import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import type { ReactNode, RefObject } from "react";
import { t } from "../texts/index.ts";
import { Button, IconButton } from "./Button.tsx";
import css from "./Dialog.module.css";

export interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  /** "side": a panel at the right, a sheet from below on a phone; "panel": a wider one. */
  shape?: "normal" | "wide" | "side" | "panel" | "bare";
  /** The element that gets the focus first. */
  focus?: RefObject<HTMLElement | null>;
  footer?: ReactNode;
}

export function Dialog(props: DialogProps) {
  const { open, onClose, title, children, shape = "normal", focus, footer } = props;
  return (
    <Base.Root open={open} onOpenChange={(now) => !now && onClose()}>
      <Base.Portal>
        <Base.Backdrop className={css.backdrop} />
        <Base.Popup
          className={`${css.popup} ${shape === "panel" ? css.side : ""} ${css[shape]}`}
          {...(focus ? { initialFocus: focus } : {})}
        >
          <header className={shape === "bare" ? "unseen" : css.header}>
            <Base.Title className={css.title}>{title}</Base.Title>
            {shape !== "bare" && (
              <Base.Close
                render={<IconButton label={t.frame.close} icon={<X aria-hidden />} small />}
              />
            )}
          </header>
          <div className={shape === "bare" ? css.bareBody : css.body} tabIndex={-1}>
            {children}
          </div>
          {footer && <footer className={css.footer}>{footer}</footer>}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

export interface ConfirmProps {
  open: boolean;
  onClose: () => void;
  title: string;
  text: string;
  action: string;
  onConfirm: () => void;
}

/** Asks before something that can't be undone. */
export function Confirm({ open, onClose, title, text, action, onConfirm }: ConfirmProps) {
  const run = () => {
    onConfirm();
    onClose();
  };
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title={title}
      footer={
        <>
          <Button onClick={onClose}>{t.frame.cancel}</Button>
          <Button kind="danger" onClick={run}>{action}</Button>
        </>
      }
    >
      <p>{text}</p>
    </Dialog>
  );
}
