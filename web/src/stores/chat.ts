import {
  type Draft,
  draftKey,
  FeedError,
  SessionStore,
  type SessionStatus,
  type StoreChange,
  type ToolOutput,
} from "@netaclaw/client";
import { WhenBusy } from "@netaclaw/client/gen/netaclaw/chat/v1/chat_service_pb";
import { ReceiptState, type TokenUpdate } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import { type Entry, EntryKind, EntryState, type Session } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import { defineStore } from "pinia";
import { computed, ref, shallowReactive, shallowRef } from "vue";

import { client, feed } from "../connection";
import { isOpen, taskWord } from "../model/states";
import { cardsOf, type Place, placeOf, treeOf } from "../model/transcript";
import { Unanswered } from "../model/unanswered";
import { useNotices } from "./notices";
import { type Waiting, withReceipt, withStored } from "./waiting";

type Listener = (change: StoreChange) => void;

/** The session on the page. One at a time; what it shows comes from its tree and its events alone. */
export const useChat = defineStore("chat", () => {
  const notices = useNotices();
  const containers = {
    entries: shallowReactive(new Map<string, Entry>()),
    drafts: shallowReactive(new Map<string, Draft>()),
    toolOutputs: shallowReactive(new Map<string, ToolOutput>()),
  };
  const sessionId = ref("");
  const status = ref<SessionStatus>("loading");
  const failure = shallowRef<unknown>();
  const storedLeaf = ref("");
  /** The leaf of a branch that is looked at while another one is written to; empty: the stored leaf. */
  const viewedLeaf = ref("");
  const leafEntryId = computed(() => viewedLeaf.value || storedLeaf.value);
  const session = shallowRef<Session>();
  const tokens = shallowRef<TokenUpdate>();
  const waiting = ref<Waiting[]>([]);
  const stopping = ref(false);
  const sending = ref(false);
  /** Whether the conversation has been read. */
  const loaded = ref(false);
  const stoppingTasks = ref<ReadonlySet<string>>(new Set());
  const compacting = ref(false);
  const compactionError = ref("");
  const runningTurnId = ref("");
  /** Entry to continue from; empty: the leaf. */
  const from = ref("");
  const treeOpen = ref(false);
  /** The entry whose versions are to have the focus as soon as they are shown. */
  const toFocus = ref("");
  /** When something last came for a task, in milliseconds since 1970. */
  const heard = shallowReactive(new Map<string, number>());
  /** When anything of the turn last came; read by the clock alone, so nothing follows it. */
  let lastHeard = 0;
  const listeners = new Set<Listener>();
  let open: SessionStore | undefined;
  const unanswered = new Unanswered();
  /** The message before, of the session that is shown. */
  let underway: Promise<unknown> = Promise.resolve();

  const tree = computed(() => treeOf(containers.entries, leafEntryId.value));
  const running = computed(() => Boolean(runningTurnId.value));
  const openQuestions = computed(() =>
    [...containers.entries.values()].filter((entry) => entry.body.case === "clarify" && entry.body.value.state === 1),
  );

  async function show(id: string): Promise<void> {
    if (open && sessionId.value === id) return;
    leave();
    sessionId.value = id;
    if (!id) return;
    const store = (open = new SessionStore({ client, feed, sessionId: id, containers }));
    status.value = "loading";
    store.subscribe((change) => open === store && changed(store, change));
    await store.open();
  }

  function leave(): void {
    open?.close();
    open = undefined;
    for (const map of [containers.entries, containers.drafts, containers.toolOutputs, heard]) map.clear();
    treeOpen.value = false;
    sessionId.value =
      storedLeaf.value =
      viewedLeaf.value =
      from.value =
      compactionError.value =
      runningTurnId.value =
        "";
    session.value = tokens.value = failure.value = undefined;
    waiting.value = [];
    loaded.value = sending.value = compacting.value = false;
    underway = Promise.resolve();
    atRest();
  }

  function changed(store: SessionStore, change: StoreChange): void {
    status.value = store.status;
    failure.value = store.error;
    storedLeaf.value = store.view.leafEntryId;
    if (viewedLeaf.value === storedLeaf.value) viewedLeaf.value = "";
    session.value = store.view.session;
    tokens.value = store.view.tokens;
    if (change.kind === "reset" || (change.kind === "event" && change.event.event.case !== "heartbeat")) {
      lastHeard = Date.now();
    }
    if (change.kind === "reset") {
      runningTurnId.value = store.view.session.runningTurnId;
      loaded.value = true;
      compacting.value = false;
      if (!runningTurnId.value) atRest();
      waiting.value = withStored(waiting.value, store.view.queued);
    }
    if (change.kind === "event") {
      const { event, taskId } = change.event;
      if (taskId) heard.set(taskId, Date.now());
      switch (event.case) {
        case "sessionEntryAdded":
          if (event.value.entry?.state === EntryState.STREAMING || event.value.entry?.kind === EntryKind.USER) {
            runningTurnId.value = change.event.turnId;
          }
          if (event.value.entry?.body.case === "user") unanswered.arrived({ text: event.value.entry.body.value.text });
          break;
        case "messageReceipt":
          unanswered.arrived({ requestId: event.value.requestId });
          receipt(event.value.requestId, event.value.state);
          break;
        case "compactionStart":
          compacting.value = true;
          compactionError.value = "";
          break;
        case "compactionDone":
          compacting.value = false;
          break;
        case "compactionError":
          compacting.value = false;
          compactionError.value = event.value.message;
          break;
        case "done":
        case "error":
          if (runningTurnId.value === change.event.turnId) runningTurnId.value = "";
          atRest();
          void settleView();
          break;
      }
    }
    for (const listener of listeners) listener(change);
  }

  /** Nothing runs: nothing is being stopped either. */
  function atRest(): void {
    stopping.value = false;
    stoppingTasks.value = new Set();
  }

  function receipt(requestId: string, state: ReceiptState): void {
    const known = waiting.value.some((message) => message.requestId === requestId);
    if (!known && state === ReceiptState.QUEUED) void readWaiting(); // sent from elsewhere: its words are in the store
    waiting.value = withReceipt(waiting.value, requestId, state);
  }

  async function readWaiting(): Promise<void> {
    const { queuedMessages, session } = await client.sessions.getSessionTree({
      sessionId: sessionId.value,
      pageSize: 1,
    });
    if (session?.sessionId === sessionId.value) waiting.value = withStored(waiting.value, queuedMessages);
  }

  /** Send a message; a running turn is steered or waited for. False when it was not accepted. */
  async function send(text: string, whenBusy: WhenBusy = WhenBusy.ENQUEUE, place = chosenPlace()): Promise<boolean> {
    const store = open;
    if (!store) return false;
    const id = sessionId.value;
    const requestId = unanswered.idOf(id, text, place);
    const busy = running.value || sending.value;
    if (busy) waiting.value = [...waiting.value, { requestId, text, state: "sending" }];
    else sending.value = true;
    const more = { requestId, whenBusy: busy ? whenBusy : WhenBusy.REJECT, ...place };
    const before = underway;
    let turnId = "";
    const sent = (underway = notices.attempt(async () => {
      await before; // messages arrive in the order in which they were written
      ({ turnId } = await store.send(text, more));
    }));
    const accepted = await sent;
    if (accepted) unanswered.arrived({ requestId });
    else unanswered.failed(requestId, id, text, place);
    if (!busy && open === store) sending.value = false;
    // With a turn at once it waits for none: the one that this page still shows had ended, and no receipt comes.
    if (!accepted || turnId) forgetWaiting(requestId);
    if (accepted && open === store) from.value = "";
    return accepted;
  }

  function chosenPlace(): Place {
    return from.value ? { leafEntryId: from.value } : {};
  }

  /** Ask the same again, as another version of the question. */
  async function again(question: Entry): Promise<void> {
    if (question.body.case !== "user" || sending.value) return;
    await send(question.body.value.text, undefined, placeOf(question));
  }

  async function retract(requestId: string): Promise<void> {
    await notices.attempt(() => client.chat.retractMessage({ sessionId: sessionId.value, requestId }));
  }

  function forgetWaiting(requestId: string): void {
    waiting.value = waiting.value.filter((message) => message.requestId !== requestId);
  }

  async function stop(): Promise<void> {
    stopping.value = true;
    // Named, so that a turn that waits for its end is not stopped in its place; without one a compaction is.
    const request = { sessionId: sessionId.value, turnId: runningTurnId.value };
    await notices.attempt(() => client.chat.cancelTurn(request));
    stopping.value = false; // the answer comes when everything is gone, or nothing was there
  }

  async function stopTask(taskId: string): Promise<void> {
    stoppingTasks.value = new Set(stoppingTasks.value).add(taskId);
    await notices.attempt(() => client.chat.cancelSubagent({ sessionId: sessionId.value, taskId }));
    const rest = new Set(stoppingTasks.value);
    rest.delete(taskId);
    stoppingTasks.value = rest;
  }

  /**
   * Show another branch; with instructions, or "", the one that is left is summarised. While a turn runs the leaf is that
   * turn's, so the reader alone goes there until its end, without a summary.
   */
  async function switchTo(leaf: string, instructions?: string): Promise<boolean> {
    if (running.value) {
      viewedLeaf.value = leaf === storedLeaf.value ? "" : leaf;
      return true;
    }
    const summary = instructions === undefined ? {} : { summarize: true, instructions };
    const request = { sessionId: sessionId.value, leafEntryId: leaf, ...summary };
    return notices.attempt(() => client.commands.switchLeaf(request));
  }

  /** Read the session again, after it could not be had. */
  async function reload(): Promise<void> {
    const id = sessionId.value;
    leave();
    await show(id);
  }

  /** The leaf follows the reader, unless the next turn has begun. */
  async function settleView(): Promise<void> {
    const [id, leaf] = [sessionId.value, viewedLeaf.value];
    if (!leaf) return;
    try {
      await client.commands.switchLeaf({ sessionId: id, leafEntryId: leaf });
    } catch (error) {
      if (FeedError.from(error).reason !== "TURN_RUNNING" && sessionId.value === id) viewedLeaf.value = "";
    }
  }

  function draftOf(entryId: string, taskId = ""): Draft | undefined {
    return containers.drafts.get(draftKey(entryId, taskId));
  }

  function onChange(listener: Listener): () => void {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }

  const runningTasks = computed(() => {
    const tasks = [...tree.value.attachments.values()]
      .flatMap((list) => cardsOf(list))
      .flatMap(({ batch }) => batch.items);
    return tasks.filter((task) => isOpen(taskWord(task.state)));
  });

  return {
    ...{
      containers,
      sessionId,
      status,
      failure,
      leafEntryId,
      session,
      tokens,
      waiting,
      stopping,
      sending,
      loaded,
      from,
      treeOpen,
      toFocus,
      heard,
    },
    ...{ stoppingTasks, compacting, compactionError, tree, running, openQuestions, runningTasks },
    ...{ show, leave, send, again, retract, forgetWaiting, stop, stopTask, switchTo, reload, draftOf, onChange },
    lastHeardMs: () => lastHeard,
  };
});
