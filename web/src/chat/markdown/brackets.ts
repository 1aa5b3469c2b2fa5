import type { Extension as MdastExtension, Token } from "mdast-util-from-markdown";
import type { InlineMath } from "mdast-util-math";
import type {
  Code, Construct, Effects, Extension, State, TokenizeContext,
} from "micromark-util-types";

declare module "micromark-util-types" {
  interface TokenTypeMap {
    bracketMath: "bracketMath";
    bracketMathData: "bracketMathData";
    bracketMathMark: "bracketMathMark";
  }
}

const [BACKSLASH, PAREN, PAREN_END, BRACKET, BRACKET_END] = [92, 40, 41, 91, 93];

const isLineEnd = (code: Code): boolean => code !== null && code < -2;

/** `\( \)` and `\[ \]`, as models write maths, in Markdown's texts. */
export function brackets(): Extension {
  return { text: { [BACKSLASH]: { name: "bracketMath", tokenize } } };
}

function tokenize(this: TokenizeContext, effects: Effects, ok: State, nok: State): State {
  let end = PAREN_END;
  const closing: Construct = { partial: true, tokenize: (inner, yes, no) => closes(inner, yes, no) };

  const start: State = (code) => {
    effects.enter("bracketMath");
    effects.enter("bracketMathMark");
    effects.consume(code);
    return open;
  };
  const open: State = (code) => {
    if (code !== PAREN && code !== BRACKET) return nok(code);
    end = code === PAREN ? PAREN_END : BRACKET_END;
    effects.consume(code);
    effects.exit("bracketMathMark");
    return between;
  };
  const between: State = (code) => {
    if (code === null) return nok(code);
    if (isLineEnd(code)) {
      effects.enter("lineEnding");
      effects.consume(code);
      effects.exit("lineEnding");
      return between;
    }
    return code === BACKSLASH ? effects.check(closing, close, data)(code) : data(code);
  };
  const data: State = (code) => {
    effects.enter("bracketMathData");
    effects.consume(code);
    return code === BACKSLASH ? escaped : more;
  };
  /** The sign after a backslash belongs to it, so `\\)` ends nothing. */
  const escaped: State = (code) => {
    if (code === null || isLineEnd(code)) return more(code);
    effects.consume(code);
    return more;
  };
  const more: State = (code) => {
    if (code === null || isLineEnd(code) || code === BACKSLASH) {
      effects.exit("bracketMathData");
      return between(code);
    }
    effects.consume(code);
    return more;
  };
  const close: State = (code) => {
    effects.enter("bracketMathMark");
    effects.consume(code);
    return (last) => {
      effects.consume(last);
      effects.exit("bracketMathMark");
      effects.exit("bracketMath");
      return ok;
    };
  };
  /** Whether the backslash here and the sign after it are the end. */
  const closes = (inner: Effects, yes: State, no: State): State => (code) => {
    inner.enter("bracketMathMark");
    inner.consume(code);
    return (next) => {
      if (next !== end) return no(next);
      inner.consume(next);
      inner.exit("bracketMathMark");
      return yes;
    };
  };
  return start;
}

/** Makes `inlineMath` of what {@link brackets} finds. */
export const bracketsFromMarkdown: MdastExtension = {
  enter: {
    bracketMath(token: Token) {
      this.enter({ type: "inlineMath", value: "" }, token);
      this.buffer();
    },
  },
  exit: {
    bracketMath(token: Token) {
      const value = this.resume();
      const node = this.stack.at(-1) as InlineMath;
      node.value = value;
      this.exit(token);
    },
    bracketMathData(token: Token) {
      this.config.enter["data"]?.call(this, token);
      this.config.exit["data"]?.call(this, token);
    },
  },
};
