/** A session's path as the page shows it: pure functions of entries, the same for a live session and a reloaded one. */
import {
  type AssistantBody,
  type Entry,
  EntryKind,
  type TodoItem,
  type ToolCallPart,
} from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import type { ProcessEvent, SubagentBatch } from "@netaclaw/client/gen/netaclaw/session/v1/subagent_pb";
import { isAttachment } from "@netaclaw/client";

/** Entries by parent, each list in the order in which its entries came. */
export interface Tree {
  readonly path: readonly Entry[];
  /** Entries that can stand on a path; "" holds the roots. */
  readonly children: ReadonlyMap<string, readonly Entry[]>;
  readonly attachments: ReadonlyMap<string, readonly Entry[]>;
}

/** Where a message goes: behind an entry, to the root, or, where neither is said, behind the leaf. */
export interface Place {
  readonly leafEntryId?: string;
  readonly fromRoot?: boolean;
}

/** Where another version of an entry stands: behind what the entry stands behind. */
export const placeOf = ({ parentEntryId }: Entry): Place =>
  parentEntryId ? { leafEntryId: parentEntryId } : { fromRoot: true };

export function treeOf(entries: ReadonlyMap<string, Entry>, leafEntryId: string): Tree {
  const children = new Map<string, Entry[]>();
  const attachments = new Map<string, Entry[]>();
  for (const entry of entries.values()) {
    const lists = isAttachment(entry) ? attachments : children;
    const list = lists.get(entry.parentEntryId);
    if (list) list.push(entry);
    else lists.set(entry.parentEntryId, [entry]);
  }
  const path: Entry[] = [];
  for (let entry = entries.get(leafEntryId); entry; entry = entries.get(entry.parentEntryId)) path.push(entry);
  return { path: path.reverse(), children, attachments };
}

/** The entry where a branch ends that begins here: the newest child, again and again. */
export function newestLeaf(tree: Tree, entryId: string): string {
  let found = entryId;
  for (let next = tree.children.get(found)?.at(-1); next; next = tree.children.get(found)?.at(-1)) found = next.entryId;
  return found;
}

/** A delegation's card: its batch and what has been reported of it. */
export interface Card {
  readonly entryId: string;
  readonly entry: Entry;
  readonly batch: SubagentBatch;
  readonly events: readonly ProcessEvent[];
  /** Process events in all; of these `events` are the last. */
  readonly eventCount: number;
}

/** Delegations on an anchor: the result entry where there is one, else the batch entry, in order. */
export function cardsOf(attachments: readonly Entry[] | undefined): Card[] {
  const cards = new Map<string, Card>();
  for (const entry of attachments ?? []) {
    const body = entry.body;
    if (body.case === "subagentBatch" && body.value.batch && !cards.has(entry.entryId)) {
      const { batch, events, processEventCount } = body.value;
      const eventCount = Math.max(processEventCount, events.length);
      cards.set(entry.entryId, { entryId: entry.entryId, entry, batch, events, eventCount });
    }
    if (body.case === "subagentResult" && body.value.batch) {
      const { batch, batchEntryId, processEvents, processEventCount } = body.value;
      const eventCount = Math.max(processEventCount, processEvents.length);
      cards.set(batchEntryId, { entryId: batchEntryId, entry, batch, events: processEvents, eventCount });
    }
  }
  return [...cards.values()];
}

export const questionsOf = (attachments: readonly Entry[] | undefined): Entry[] =>
  (attachments ?? []).filter((entry) => entry.kind === EntryKind.CLARIFY);

/** One line of a task's timeline: a call with its result, or another event. */
export interface Step {
  readonly key: string;
  readonly event: ProcessEvent;
  readonly result?: ProcessEvent;
}

/** A task's timeline: results stand with their calls. */
export function stepsOf(events: readonly ProcessEvent[], taskId: string): Step[] {
  const steps: Step[] = [];
  const calls = new Map<string, number>();
  events.forEach((event, n) => {
    if (event.taskId !== taskId) return;
    const place = event.callId ? calls.get(event.callId) : undefined;
    const known = place === undefined ? undefined : steps[place];
    if (known && place !== undefined && event.type === "tool_result") steps[place] = { ...known, result: event };
    else if (known && event.type === "proxy_tool_call") return;
    else {
      if (event.callId && event.type !== "tool_result") calls.set(event.callId, steps.length);
      steps.push({ key: `${event.type} ${event.callId || n}`, event });
    }
  });
  return steps;
}

/** What one assistant entry shows, in the page's order. */
export interface Blocks {
  readonly todos: readonly TodoItem[];
  readonly calls: readonly ToolCallPart[];
  readonly thinking: string;
  readonly text: string;
  /** The stored whole of a text that is longer than its part. */
  readonly contentId: string;
  /** Of the whole, when contentId is set. */
  readonly sizeBytes: bigint;
}

/** Tools that have a card of their own. */
const OWN_CARDS: ReadonlySet<string> = new Set(["delegate_task", "delegate_parallel", "clarify"]);
const PLAN = "todo_write";

export function blocksOf(body: AssistantBody, hasCard: (callId: string) => boolean): Blocks {
  const calls: ToolCallPart[] = [];
  const texts: string[] = [];
  const thoughts: string[] = [];
  let contentId = "";
  let sizeBytes = 0n;
  const hasOwnCard = ({ toolName, callId }: ToolCallPart) =>
    (OWN_CARDS.has(toolName) && hasCard(callId)) || (toolName === PLAN && body.todos.length > 0);
  for (const { part } of body.parts) {
    if (part.case === "text") {
      texts.push(part.value.text);
      contentId ||= part.value.contentId;
      sizeBytes ||= part.value.sizeBytes;
    } else if (part.case === "thinking") thoughts.push(part.value.text);
    else if (part.case === "toolCall" && !hasOwnCard(part.value)) calls.push(part.value);
  }
  return { todos: body.todos, calls, thinking: thoughts.join("\n\n"), text: texts.join(""), contentId, sizeBytes };
}

/** The first line of what an entry says, for lists. */
export function headline(entry: Entry): string {
  const body = entry.body;
  switch (body.case) {
    case "user":
      return firstLine(body.value.text);
    case "assistant": {
      const texts = body.value.parts.map(({ part }) => (part.case === "text" ? part.value.text : ""));
      const calls = body.value.parts.map(({ part }) => (part.case === "toolCall" ? part.value.toolName : ""));
      return firstLine(texts.join("")) || calls.filter(Boolean).join(", ");
    }
    case "compaction":
    case "branchSummary":
      return firstLine(body.value.summary);
    default:
      return "";
  }
}

function firstLine(text: string): string {
  return (text.trim().split("\n", 1)[0] ?? "").slice(0, 120);
}
