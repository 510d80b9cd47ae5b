import { clone, create } from "@bufbuild/protobuf";

import { type ChatEvent, type TokenUpdate, TokenUpdateSchema } from "./gen/netaclaw/chat/v1/event_pb.js";
import {
  type Entry,
  EntryKind,
  EntrySchema,
  EntryState,
  PartSchema,
  type Session,
  SessionSchema,
  type ToolCallPart,
  ToolCallState,
} from "./gen/netaclaw/session/v1/entry_pb.js";
import type { GetSessionTreeResponse, QueuedMessage } from "./gen/netaclaw/session/v1/session_service_pb.js";
import {
  type EvidenceSummary,
  type SubagentBatch,
  type SubagentBatchBody,
  type SubagentFinalResult,
  type SubagentTask,
  SubagentTaskState,
} from "./gen/netaclaw/session/v1/subagent_pb.js";
import { type Draft, startedDraft, type ToolOutput, withDelta, withOutput } from "./drafts.js";
import { Gap } from "./errors.js";

/** A batch entry keeps this many process events; the oldest are dropped. */
export const MAX_BATCH_EVENTS = 200;

/** Where a view keeps what it holds: plain maps, or reactive ones of a framework. */
export interface ViewContainers {
  /** By id, in the order in which they came. An entry that changes is replaced by a new object. */
  readonly entries: Map<string, Entry>;
  /** What is being written, by draftKey(). A draft that grows is replaced by a new object. */
  readonly drafts: Map<string, Draft>;
  /** Output of running tools, by call id. */
  readonly toolOutputs: Map<string, ToolOutput>;
}

/** The key of a draft: the main agent's, or that of a subagent's task. */
export function draftKey(entryId: string, taskId = ""): string {
  return taskId ? `${entryId} ${taskId}` : entryId;
}

/**
 * One session as a client sees it.
 *
 * Durable events are applied in order, exactly once; what an entry already includes (its updatedSeq) is not applied to
 * it again, so a replay over current rows changes nothing. `subagentProjection` is computed by the store alone: while a
 * batch runs, an entry keeps the projection that it last arrived with.
 */
export class SessionView {
  sessionId = "";
  /** Of the last durable event that is included. */
  seq = 0n;
  leafEntryId = "";
  session: Session = create(SessionSchema);
  /** The last live report of the running turn. */
  tokens: TokenUpdate = create(TokenUpdateSchema);
  /** The messages that waited for the running turn when the tree was read; receipts say what becomes of them. */
  queued: readonly QueuedMessage[] = [];
  /** The last `done` or `error` event. */
  turnEnd: ChatEvent | undefined;
  readonly entries: Map<string, Entry>;
  readonly drafts: Map<string, Draft>;
  readonly toolOutputs: Map<string, ToolOutput>;

  constructor(containers: Partial<ViewContainers> = {}) {
    this.entries = containers.entries ?? new Map();
    this.drafts = containers.drafts ?? new Map();
    this.toolOutputs = containers.toolOutputs ?? new Map();
  }

  /**
   * The session as its tree stands; events after the first page's seq may be applied to it.
   *
   * The pages' entries become the view's own. What changes later is a new object, so the pages stay as they are.
   */
  static fromTree(pages: Iterable<GetSessionTreeResponse>, containers?: ViewContainers): SessionView {
    const view = new SessionView(containers);
    view.drafts.clear();
    view.toolOutputs.clear();
    const before = new Set(view.entries.keys());
    for (const page of pages) {
      if (!view.sessionId && page.session) {
        view.session = clone(SessionSchema, page.session);
        view.sessionId = page.session.sessionId;
        view.seq = page.session.seq;
        view.leafEntryId = page.session.leafEntryId;
        view.queued = page.queuedMessages;
      }
      for (const entry of page.entries) {
        before.delete(entry.entryId);
        view.entries.set(entry.entryId, entry);
      }
    }
    for (const gone of before) view.entries.delete(gone);
    return view;
  }

  /**
   * Take one event; true when it was new.
   *
   * Durable events at or before `seq` are ignored. Throws Gap, unchanged, for one that leaves a hole.
   */
  apply(event: ChatEvent): boolean {
    if (event.seq) {
      if (event.seq <= this.seq) return false;
      if (event.seq !== this.seq + 1n) throw new Gap(this.seq, event.seq);
      this.seq = event.seq;
    }
    this.sessionId ||= event.sessionId;
    change(this, event); // kinds of a later version count, and change nothing
    return true;
  }

  /** The entries from the root to an entry, by default the leaf. */
  path(entryId = this.leafEntryId): Entry[] {
    const found: Entry[] = [];
    for (let entry = this.entries.get(entryId); entry; entry = this.entries.get(entry.parentEntryId)) found.push(entry);
    return found.reverse();
  }

  /** The entries on a parent that can stand on a path, in the order in which they came; "" asks for the roots. */
  children(parentEntryId: string): Entry[] {
    return [...this.entries.values()].filter((entry) => entry.parentEntryId === parentEntryId && !isAttachment(entry));
  }

  /** What hangs on an assistant entry: delegations, their results, questions. */
  attachments(parentEntryId: string): Entry[] {
    return [...this.entries.values()].filter((entry) => entry.parentEntryId === parentEntryId && isAttachment(entry));
  }

  /** Delegations as cards show them: the result entry where there is one, else the batch entry, in order. */
  batches(parentEntryId?: string): Entry[] {
    const all = [...this.entries.values()].filter((entry) => !parentEntryId || entry.parentEntryId === parentEntryId);
    const results = new Map<string, Entry>();
    for (const entry of all) {
      if (entry.body.case === "subagentResult") results.set(entry.body.value.batchEntryId, entry);
    }
    return all
      .filter((entry) => entry.kind === EntryKind.SUBAGENT_BATCH)
      .map((entry) => results.get(entry.entryId) ?? entry);
  }

  /** Text of an assistant entry as it stands: what is being written, else the stored parts. */
  textOf(entryId: string): string {
    const draft = this.drafts.get(draftKey(entryId));
    if (draft) return draft.text;
    const body = this.entries.get(entryId)?.body;
    if (body?.case !== "assistant") return "";
    return body.value.parts.map((part) => (part.part.case === "text" ? part.part.value.text : "")).join("");
  }

  /** Whether a turn is running, as far as this view knows. */
  get running(): boolean {
    for (const entry of this.entries.values()) {
      if (entry.kind === EntryKind.ASSISTANT && entry.state === EntryState.STREAMING) return true;
    }
    return false;
  }
}

/** Whether an entry hangs on another beside the path. */
export function isAttachment(entry: Entry): boolean {
  return (
    entry.kind === EntryKind.SUBAGENT_BATCH ||
    entry.kind === EntryKind.SUBAGENT_RESULT ||
    entry.kind === EntryKind.CLARIFY
  );
}

function change(view: SessionView, event: ChatEvent): void {
  const kind = event.event;
  switch (kind.case) {
    case "sessionEntryAdded":
    case "sessionEntryUpdated":
    case "clarifyRequest":
    case "clarifyResolved":
      return put(view, event, kind.value.entry);
    case "sessionEntryRemoved":
      return removed(view, kind.value.entryId);
    case "sessionLeafChanged":
      view.leafEntryId = kind.value.leafEntryId;
      return;
    case "sessionUpdated":
      if (kind.value.session) view.session = clone(SessionSchema, kind.value.session);
      return;
    case "toolCallStarted":
      return replaceCall(view, event, kind.value.call);
    case "toolCallCompleted":
      if (kind.value.call) view.toolOutputs.delete(kind.value.call.callId);
      return replaceCall(view, event, kind.value.call);
    case "subagentRunStarted":
    case "subagentRunCompleted":
      return replaceBatch(view, event, kind.value.batch);
    case "subagentEvent":
      return subagentEvent(view, event);
    case "tokenUpdate":
      view.tokens = kind.value;
      return;
    case "done":
    case "error":
      view.turnEnd = event;
      view.drafts.clear();
      view.toolOutputs.clear();
      return;
    default:
      return changeLive(view, event);
  }
}

function changeLive(view: SessionView, event: ChatEvent): void {
  const kind = event.event;
  const key = draftKey(event.entryId, event.taskId);
  switch (kind.case) {
    case "assistantStreamStart":
      view.drafts.set(key, startedDraft(kind.value));
      return;
    case "assistantStreamDelta": {
      const known = view.drafts.get(key);
      const grown = known && withDelta(known, kind.value);
      if (grown && grown !== known) view.drafts.set(key, grown);
      return;
    }
    case "toolResultStreamed":
      view.toolOutputs.set(kind.value.callId, withOutput(view.toolOutputs.get(kind.value.callId), kind.value));
      return;
    case "processEvent":
      return processEvent(view, event);
  }
}

/** Replace an entry, unless what is here is newer. */
function put(view: SessionView, event: ChatEvent, arrived: Entry | undefined): void {
  if (!arrived) return;
  const known = view.entries.get(arrived.entryId);
  const newest = arrived.updatedSeq > event.seq ? arrived.updatedSeq : event.seq;
  if (known && known.updatedSeq > newest) return;
  const entry = clone(EntrySchema, arrived);
  if (entry.updatedSeq < event.seq) stamp(entry, event);
  view.entries.set(entry.entryId, entry);
  if (entry.state !== EntryState.STREAMING) view.drafts.delete(draftKey(entry.entryId));
}

function removed(view: SessionView, entryId: string): void {
  view.entries.delete(entryId);
  for (const key of view.drafts.keys()) {
    if (key === entryId || key.startsWith(`${entryId} `)) view.drafts.delete(key);
  }
}

/** The entry that a durable event changes, as a new object, stamped; undefined when it includes the event. */
function outdated(view: SessionView, entryId: string, event: ChatEvent): Entry | undefined {
  const known = view.entries.get(entryId);
  if (!known || known.updatedSeq >= event.seq) return undefined;
  const entry = { ...known };
  stamp(entry, event);
  view.entries.set(entryId, entry);
  return entry;
}

function stamp(entry: Entry, event: ChatEvent): void {
  entry.updatedSeq = event.seq;
  if (event.time) entry.updateTime = event.time;
}

function replaceCall(view: SessionView, event: ChatEvent, call: ToolCallPart | undefined): void {
  if (!call || event.taskId) return; // a child's calls are no parts of the anchor
  const entry = outdated(view, event.entryId, event);
  if (entry?.body.case !== "assistant") return;
  const fresh = create(PartSchema, { part: { case: "toolCall", value: call } });
  const parts = [...entry.body.value.parts];
  const place = parts.findIndex((part) => part.part.case === "toolCall" && part.part.value.callId === call.callId);
  parts.splice(place < 0 ? parts.length : place, place < 0 ? 0 : 1, fresh);
  entry.body = { case: "assistant", value: { ...entry.body.value, parts } };
}

function replaceBatch(view: SessionView, event: ChatEvent, batch: SubagentBatch | undefined): void {
  if (!batch) return;
  dropEnded(view, batch.items);
  const entry = outdated(view, batch.batchEntryId, event);
  if (entry?.body.case === "subagentBatch") {
    entry.body = { case: "subagentBatch", value: { ...entry.body.value, batch } };
  }
}

function subagentEvent(view: SessionView, event: ChatEvent): void {
  if (event.event.case !== "subagentEvent") return;
  const { batchEntryId, item, counts, usage, processEvent: step, result, evidenceSummaries } = event.event.value;
  if (item) dropEnded(view, [item]);
  const entry = outdated(view, batchEntryId, event);
  if (entry?.body.case !== "subagentBatch") return;
  const body = { ...entry.body.value };
  if (body.batch) {
    const items = body.batch.items.map((known) => (item && known.taskId === item.taskId ? item : known));
    body.batch = { ...body.batch, items };
    if (counts) body.batch.counts = counts;
    if (usage) body.batch.usage = usage;
  }
  if (step) {
    body.events = [...body.events, step].slice(-MAX_BATCH_EVENTS);
    body.latestEvent = step;
    body.processEventCount += 1;
  }
  if (result) addResult(body, result, evidenceSummaries);
  entry.body = { case: "subagentBatch", value: body };
}

/** A task ended: its result and evidence take their places in task order. */
function addResult(body: SubagentBatchBody, result: SubagentFinalResult, evidence: EvidenceSummary[]): void {
  const order = new Map(body.batch?.items.map((item, place) => [item.taskId, place]));
  const placeOf = (taskId: string | undefined) => order.get(taskId ?? "") ?? order.size;
  body.finalResults = [...body.finalResults, result].sort((a, b) => placeOf(a.task?.taskId) - placeOf(b.task?.taskId));
  body.evidenceSummaries = [...body.evidenceSummaries, ...evidence].sort(
    (a, b) => placeOf(a.taskId) - placeOf(b.taskId),
  );
}

function dropEnded(view: SessionView, tasks: readonly SubagentTask[]): void {
  const ended = tasks.filter(
    (task) => task.state !== SubagentTaskState.QUEUED && task.state !== SubagentTaskState.RUNNING,
  );
  if (!ended.length) return;
  for (const key of view.drafts.keys()) {
    if (ended.some((task) => key.endsWith(` ${task.taskId}`))) view.drafts.delete(key);
  }
}

/** A part keeps its last one; it is stored with the call's result, so this is for showing only. */
function processEvent(view: SessionView, event: ChatEvent): void {
  const step = event.event.case === "processEvent" ? event.event.value.processEvent : undefined;
  const entry = view.entries.get(event.entryId);
  if (!step || event.taskId || entry?.body.case !== "assistant") return;
  let found = false;
  const parts = entry.body.value.parts.map((part) => {
    const call = part.part;
    if (call.case !== "toolCall" || call.value.callId !== step.callId || !isRunning(call.value)) return part;
    found = true;
    return { ...part, part: { case: "toolCall" as const, value: { ...call.value, lastProcessEvent: step } } };
  });
  if (found) {
    const body = { case: "assistant" as const, value: { ...entry.body.value, parts } };
    view.entries.set(entry.entryId, { ...entry, body });
  }
}

function isRunning(call: ToolCallPart): boolean {
  return call.state === ToolCallState.PENDING || call.state === ToolCallState.RUNNING;
}
