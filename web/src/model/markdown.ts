/**
 * Markdown that may come from anywhere: no HTML of its own, no request to another site, no script.
 *
 * markdown-it passes no raw HTML through, DOMPurify goes over what it made, and pictures become links.
 */
import DOMPurify, { type Config } from "dompurify";
import MarkdownIt from "markdown-it";

import { DISPLAY, INLINE, withMath } from "./math";

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: false });
withMath(markdown);

markdown.renderer.rules.image = (tokens, place) => {
  const token = tokens[place];
  const address = String(token?.attrGet("src") ?? "");
  const words = token?.content || address;
  const { escapeHtml } = markdown.utils;
  return `<a href="${escapeHtml(address)}">${escapeHtml(words)}</a>`;
};

const ALLOWED: Config & { RETURN_DOM_FRAGMENT: true } = {
  ALLOWED_TAGS: [
    ...["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "s", "a", "code", "pre", "blockquote"],
    ...["ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"],
  ],
  ALLOWED_ATTR: ["href", "title", "class", "start"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
};

const CLASS = new RegExp(`^(?:language-[\\w+#.-]{1,30}|${INLINE}|${DISPLAY})$`);

/** Safe nodes of a text. `copyLabel` names the buttons that copy a block of code or a table. */
export function rendered(text: string, copyLabel: string): DocumentFragment {
  const fragment = DOMPurify.sanitize(markdown.render(text), ALLOWED);
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  for (const element of fragment.querySelectorAll("[class]")) {
    if (element.tagName !== "CODE" || !CLASS.test(element.className)) {
      element.removeAttribute("class");
    }
  }
  for (const table of fragment.querySelectorAll("table")) withCopy(wrap(table, "scroll"), "table", "", copyLabel);
  for (const block of fragment.querySelectorAll("pre")) {
    withCopy(block, "code", languageOf(block.firstElementChild), copyLabel);
  }
  return fragment;
}

/** What stands behind the fence of a `code` element; "" where nothing does. */
export function languageOf(code: Element | null): string {
  return /(?:^| )language-(\S+)/.exec(code?.className ?? "")?.[1] ?? "";
}

/** What a copy button copies: a block of code as it stands, a table with tabs between its cells. */
export function copiedText(button: Element): string {
  const box = button.closest(".code, .table");
  const table = box?.querySelector("table");
  if (!table) return box?.querySelector("pre")?.textContent ?? "";
  return [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent ?? "").join("\t")).join("\n");
}

function wrap(element: Element, className: string): HTMLElement {
  const box = document.createElement("div");
  box.className = className;
  element.replaceWith(box);
  box.append(element);
  return box;
}

function withCopy(block: HTMLElement, className: string, words: string, label: string): void {
  block.tabIndex = 0; // a block that scrolls must be reachable by keyboard
  const box = wrap(block, className);
  const head = document.createElement("header");
  const name = document.createElement("span");
  name.textContent = words;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "button small copy";
  button.textContent = label;
  head.append(name, button);
  box.prepend(head);
}

const FENCE = /^ {0,3}(`{3,}|~{3,})/;
const CONTINUES = /^(?: {2,}|\t| {0,3}(?:[-*+]|\d{1,9}[.)])\s| {0,3}>| {0,3}\|)/;

/**
 * Where the finished blocks of a growing text end, from `from` on, in order.
 *
 * A blank line outside fences ends a block once the next line has come and does not go on with a list, a quotation or a
 * table. What stands before an end never changes its look by what follows, except for reference links and loose lists.
 */
export function finishedEnds(text: string, from: number): number[] {
  const ends: number[] = [];
  let fence = "";
  let blank = -1;
  let inList = false;
  let start = from;
  for (let stop = text.indexOf("\n", start); stop >= 0; stop = text.indexOf("\n", start)) {
    const line = text.slice(start, stop);
    if (fence) {
      const closing = FENCE.exec(line)?.[1];
      if (closing && closing.startsWith(fence) && !line.trim().slice(closing.length)) fence = "";
    } else if (!line.trim()) {
      blank = stop + 1;
    } else {
      const goesOn = CONTINUES.test(line);
      if (blank >= 0 && !(inList && goesOn)) {
        ends.push(blank);
        inList = false;
      }
      blank = -1;
      fence = FENCE.exec(line)?.[1] ?? "";
      inList ||= goesOn;
    }
    start = stop + 1;
  }
  return ends;
}

/** Where the last finished block ends; `from` when none is finished. */
export function finishedEnd(text: string, from: number): number {
  return finishedEnds(text, from).at(-1) ?? from;
}

/** Whether links are defined apart from where they stand: such a text looks right only when it is rendered as a whole. */
export function hasReferences(text: string): boolean {
  return /^ {0,3}\[[^\]\n]+\]:/m.test(text);
}
