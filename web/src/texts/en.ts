import { chat } from "./en/chat.ts";
import { frame } from "./en/frame.ts";
import { models } from "./en/models.ts";
import { plan } from "./en/plan.ts";
import { watch } from "./en/watch.ts";

/** Every text of the page in English. Another language is another object of type `Texts`. */
export const en = { frame, chat, models, plan, watch };

export type Texts = typeof en;
