/** Keys on messages: the one that has the focus is meant, and until one has it, the last. */
import { nextTick } from "vue";

import { useKeys } from "./keyboard";
import { newestLeaf } from "./model/transcript";
import { useChat } from "./stores/chat";

/** What keys need of the conversation that is shown. */
export interface Conversation {
  /** Bring an entry into sight; its element. */
  reveal(entryId: string): Promise<HTMLElement | undefined>;
  focusComposer(): void;
  openTree(): void;
}

/** A second Escape within this time stops the turn. */
const TWICE_MS = 1_000;

export function useConversationKeys(conversation: Conversation): void {
  const chat = useChat();
  let escaped = -Infinity;

  const current = () => document.activeElement?.closest<HTMLElement>("[data-entry]") ?? undefined;

  async function focus(entryId: string): Promise<HTMLElement | undefined> {
    const element = await conversation.reveal(entryId);
    if (element) element.tabIndex = -1;
    element?.focus({ preventScroll: true });
    return element;
  }

  function move(by: number): void {
    const { path } = chat.tree;
    const at = path.findIndex(({ entryId }) => entryId === current()?.dataset.entry);
    const next = path[at < 0 ? path.length - 1 : Math.min(path.length - 1, Math.max(0, at + by))];
    if (next) void focus(next.entryId);
  }

  async function sibling(by: number): Promise<void> {
    const entry = chat.containers.entries.get(current()?.dataset.entry ?? "");
    if (!entry) return;
    const versions = chat.tree.children.get(entry.parentEntryId) ?? [];
    const wanted = versions[versions.findIndex(({ entryId }) => entryId === entry.entryId) + by];
    if (!wanted) return;
    await chat.switchTo(newestLeaf(chat.tree, wanted.entryId));
    await nextTick();
    await focus(wanted.entryId);
  }

  function continueHere(): void {
    const entryId = current()?.dataset.entry;
    if (!entryId || chat.containers.entries.get(entryId)?.body.case === "user") return;
    chat.from = entryId;
    conversation.focusComposer();
  }

  /** Open or close the first thing in the message that opens. */
  function toggle(): void {
    const inside = current()?.querySelector<HTMLElement>("[aria-expanded].toggle, summary");
    (inside ?? (current()?.tagName === "DETAILS" ? current()?.querySelector("summary") : undefined))?.click();
  }

  async function editLast(event: KeyboardEvent): Promise<void> {
    const last = [...chat.tree.path].reverse().find(({ body }) => body.case === "user");
    if (!last) return;
    event.preventDefault();
    (await conversation.reveal(last.entryId))?.querySelector<HTMLElement>("[data-edit]")?.click();
  }

  useKeys({
    j: () => move(1),
    k: () => move(-1),
    "[": () => sibling(-1),
    "]": () => sibling(1),
    c: continueHere,
    o: toggle,
    t: () => conversation.openTree(),
    ArrowUp: (event) => {
      const field = event.target as HTMLTextAreaElement;
      if (field.matches?.("[data-composer]") && !field.value && !chat.running) void editLast(event);
      return false;
    },
    Escape: (event) => {
      if (!chat.running) return false;
      const twice = event.timeStamp - escaped < TWICE_MS;
      escaped = event.timeStamp;
      if (twice) void chat.stop();
      return twice;
    },
  });
}
