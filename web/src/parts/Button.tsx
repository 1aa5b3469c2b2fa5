import type { ComponentProps, ReactNode } from "react";
import css from "./Button.module.css";
import { named } from "./Tooltip.tsx";

export interface ButtonProps extends ComponentProps<"button"> {
  kind?: "plain" | "primary" | "quiet" | "danger";
  icon?: ReactNode;
  small?: boolean;
}

export function Button({ kind = "plain", icon, small, className, children, ...rest }: ButtonProps) {
  const classes = [css.button, css[kind], small && css.small, className].filter(Boolean).join(" ");
  return (
    <button type="button" className={classes} {...rest}>
      {icon}
      {children}
    </button>
  );
}

export interface IconButtonProps extends Omit<ComponentProps<"button">, "children"> {
  /** The name, shown as a tooltip. */
  label: string;
  icon: ReactNode;
  kind?: "quiet" | "primary" | "danger";
  small?: boolean;
  /** For a switch: whether it is on. */
  pressed?: boolean;
}

export function IconButton(props: IconButtonProps) {
  const { label, icon, kind = "quiet", small, pressed, className, ...rest } = props;
  const classes = [css.icon, css[kind], small && css.smallIcon, className]
    .filter(Boolean)
    .join(" ");
  return (
    <button type="button" {...named(label)} aria-pressed={pressed} className={classes} {...rest}>
      {icon}
    </button>
  );
}
