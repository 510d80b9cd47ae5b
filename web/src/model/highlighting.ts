/**
 * Colours for code: loaded when the first block is whole, one grammar at a time.
 *
 * Grammars run on the browser's own regular expressions, and tokens get classes: no WebAssembly, no code from text and
 * no inline styles, so the content security policy needs no exception.
 */
import type { HighlighterCore, LanguageRegistration } from "shiki/core";

const GRAMMARS: Readonly<Record<string, () => Promise<{ default: LanguageRegistration[] }>>> = {
  bash: () => import("@shikijs/langs/bash"),
  c: () => import("@shikijs/langs/c"),
  cpp: () => import("@shikijs/langs/cpp"),
  csharp: () => import("@shikijs/langs/csharp"),
  css: () => import("@shikijs/langs/css"),
  diff: () => import("@shikijs/langs/diff"),
  docker: () => import("@shikijs/langs/docker"),
  go: () => import("@shikijs/langs/go"),
  html: () => import("@shikijs/langs/html"),
  ini: () => import("@shikijs/langs/ini"),
  java: () => import("@shikijs/langs/java"),
  javascript: () => import("@shikijs/langs/javascript"),
  json: () => import("@shikijs/langs/json"),
  kotlin: () => import("@shikijs/langs/kotlin"),
  make: () => import("@shikijs/langs/make"),
  markdown: () => import("@shikijs/langs/markdown"),
  proto: () => import("@shikijs/langs/proto"),
  python: () => import("@shikijs/langs/python"),
  ruby: () => import("@shikijs/langs/ruby"),
  rust: () => import("@shikijs/langs/rust"),
  sql: () => import("@shikijs/langs/sql"),
  swift: () => import("@shikijs/langs/swift"),
  toml: () => import("@shikijs/langs/toml"),
  tsx: () => import("@shikijs/langs/tsx"),
  typescript: () => import("@shikijs/langs/typescript"),
  xml: () => import("@shikijs/langs/xml"),
  yaml: () => import("@shikijs/langs/yaml"),
};
const OTHER_NAMES: Readonly<Record<string, string>> = {
  ...{ sh: "bash", shell: "bash", zsh: "bash", console: "bash", "c++": "cpp", cs: "csharp", "c#": "csharp" },
  ...{ dockerfile: "docker", golang: "go", htm: "html", js: "javascript", jsx: "tsx", mjs: "javascript" },
  ...{ jsonc: "json", kt: "kotlin", makefile: "make", md: "markdown", protobuf: "proto", py: "python" },
  ...{ python3: "python", rb: "ruby", rs: "rust", postgresql: "sql", ts: "typescript", yml: "yaml", patch: "diff" },
};
/** Longer blocks stay plain: colours are worth less than a page that answers. */
const MOST_CHARACTERS = 50_000;
const THEME = "by-class";

let starting: Promise<HighlighterCore> | undefined;

async function start(): Promise<HighlighterCore> {
  const [{ createCssVariablesTheme, createHighlighterCore }, { createJavaScriptRegexEngine }] = await Promise.all([
    import("shiki/core"),
    import("shiki/engine/javascript"),
  ]);
  return createHighlighterCore({
    themes: [createCssVariablesTheme({ name: THEME, variablePrefix: "--hl-", fontStyle: false })],
    langs: [],
    engine: createJavaScriptRegexEngine({ forgiving: true }),
  });
}

/** The name of a grammar for what stands behind a fence; undefined where there is none. */
export function grammarOf(language: string): string | undefined {
  const name = language.toLowerCase();
  const known = OTHER_NAMES[name] ?? name;
  return Object.hasOwn(GRAMMARS, known) ? known : undefined;
}

/** Colour a `code` element in place; its text stays the same. What cannot be coloured stays plain. */
export async function highlight(code: Element, language: string): Promise<void> {
  const lang = grammarOf(language);
  const text = code.textContent ?? "";
  if (!lang || !text || text.length > MOST_CHARACTERS) return;
  try {
    const highlighter = await (starting ??= start());
    if (!highlighter.getLoadedLanguages().includes(lang)) await highlighter.loadLanguage(await GRAMMARS[lang]!());
    if (code.textContent !== text) return; // another text stands there by now
    code.replaceChildren(coloured(highlighter, text, lang));
  } catch {
    starting = undefined; // not reachable just now: plain text is fine, and the next block tries again
  }
}

const waiting: [code: Element, language: string][] = [];
let working = false;

/** Colour a block when there is time for it: text that comes and hands that scroll go first. */
export function highlightInTime(code: Element, language: string): void {
  if (!grammarOf(language)) return;
  waiting.push([code, language]);
  if (!working) void workOff();
}

async function workOff(): Promise<void> {
  working = true;
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    await idle();
    if (next[0].isConnected) await highlight(...next);
  }
  working = false;
}

/** Safari has no idle callbacks. */
function idle(): Promise<unknown> {
  if (typeof requestIdleCallback === "undefined") return new Promise((resolve) => setTimeout(resolve, 50));
  return new Promise((resolve) => requestIdleCallback(resolve, { timeout: 2_000 }));
}

function coloured(highlighter: HighlighterCore, text: string, lang: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const lines = highlighter.codeToTokensBase(text, { lang, theme: THEME, tokenizeTimeLimit: 200 });
  lines.forEach((tokens, n) => {
    if (n) fragment.append("\n");
    for (const { content, color } of tokens) {
      const kind = /^var\(--hl-token-([a-z-]+)\)$/.exec(color ?? "")?.[1];
      if (!kind) {
        fragment.append(content);
        continue;
      }
      const span = document.createElement("span");
      span.className = `hl-${kind}`;
      span.textContent = content;
      fragment.append(span);
    }
  });
  return fragment;
}
