/**
 * Mathematics in Markdown: `$…$` and `\(…\)` in a line, `$$…$$` and `\[…\]` on lines of their own.
 *
 * The parser leaves TeX as text in a `code` element, which is what a reader sees until KaTeX has been loaded, and what
 * stays when the TeX is wrong.
 */
import type { default as Parser } from "markdown-it";

export const INLINE = "math-inline";
export const DISPLAY = "math-display";

const PAIRS = [
  ["$$", "$$", DISPLAY],
  ["\\[", "\\]", DISPLAY],
  ["\\(", "\\)", INLINE],
  ["$", "$", INLINE],
] as const;

/** Teach a parser mathematics. */
export function withMath(markdown: InstanceType<typeof Parser>): void {
  const { escapeHtml } = markdown.utils;
  markdown.inline.ruler.before("escape", "math", (state, silent) => {
    const found = inlineAt(state.src, state.pos, state.posMax);
    if (!found) return false;
    if (!silent) Object.assign(state.push("math", "code", 0), { content: found.tex, info: found.kind });
    state.pos = found.end;
    return true;
  });
  markdown.block.ruler.before("fence", "math", (state, startLine, endLine, silent) => {
    const first = lineOf(startLine).trim();
    const pair = PAIRS.find(([open, , kind]) => kind === DISPLAY && first.startsWith(open));
    if (!pair || (state.sCount[startLine] ?? 0) - state.blkIndent >= 4) return false;
    const [open, close] = pair;
    const lines: string[] = [];
    for (let line = startLine; line < endLine; line++) {
      if (line > startLine && (state.sCount[line] ?? 0) < state.blkIndent) return false; // of the next item, or none's
      const words = (line === startLine ? first.slice(open.length) : lineOf(line)).trimEnd();
      if (words.trim().length === 0 && line > startLine) return false; // a blank line ends a paragraph, and this one
      if (words.endsWith(close)) {
        lines.push(words.slice(0, -close.length));
        if (silent) return true;
        const token = state.push("math", "code", 0);
        token.content = lines.join("\n").trim();
        token.info = DISPLAY;
        token.block = true;
        token.map = [startLine, line + 1];
        state.line = line + 1;
        return token.content.length > 0;
      }
      lines.push(words);
    }
    return false;

    function lineOf(line: number): string {
      return state.src.slice((state.bMarks[line] ?? 0) + (state.tShift[line] ?? 0), state.eMarks[line]);
    }
  });
  markdown.renderer.rules.math = (tokens, place) => {
    const token = tokens[place];
    if (!token) return "";
    const code = `<code class="${token.info}">${escapeHtml(token.content)}</code>`;
    return token.block ? `<p>${code}</p>\n` : code;
  };
}

/** From where on a text has no more of an end, so that each beginning does not look for its own. */
let looked = { text: "", none: new Map<string, number>() };

function endAfter(text: string, close: string, from: number): number {
  if (looked.text !== text) looked = { text, none: new Map() };
  if (from >= (looked.none.get(close) ?? Infinity)) return -1;
  const to = text.indexOf(close, from);
  if (to < 0) looked.none.set(close, from);
  return to;
}

function inlineAt(text: string, at: number, most: number): { tex: string; end: number; kind: string } | undefined {
  for (const [open, close, kind] of PAIRS) {
    if (!text.startsWith(open, at)) continue;
    const from = at + open.length;
    const to = endAfter(text, close, from);
    if (to < 0 || to + close.length > most) return undefined;
    const tex = text.slice(from, to);
    if (!tex.trim()) return undefined;
    // Sums of money are no mathematics: "$5 and $6", and neither is code.
    const money = open === "$" && (/^\s|\s$|`/.test(tex) || /\d/.test(text[to + 1] ?? ""));
    return money ? undefined : { tex: tex.trim(), end: to + close.length, kind };
  }
  return undefined;
}

let katex: Promise<typeof import("katex").default> | undefined;

async function load(): Promise<typeof import("katex").default> {
  const [module] = await Promise.all([import("katex"), import("katex/dist/katex.min.css")]);
  return module.default;
}

/** Longer TeX stays as it was written. */
const MOST_CHARACTERS = 5_000;

/** Typeset what withMath() left in these nodes. TeX may come from anywhere: it sets no links, loads nothing, is bounded. */
export async function typeset(codes: readonly Element[]): Promise<void> {
  if (!codes.length) return;
  try {
    const { render } = await (katex ??= load());
    for (const code of codes) {
      if ((code.textContent?.length ?? 0) > MOST_CHARACTERS) continue;
      const span = document.createElement("span");
      span.className = code.className;
      try {
        const displayMode = code.classList.contains(DISPLAY);
        render(code.textContent ?? "", span, {
          displayMode,
          trust: false,
          strict: "ignore",
          maxSize: 20,
          maxExpand: 200,
          errorColor: "currentColor", // readable in both themes
        });
      } catch {
        continue; // no TeX: it stays as it was written
      }
      code.replaceWith(span);
    }
  } catch {
    katex = undefined; // not reachable just now
  }
}
