import { Code, ConnectError } from "@connectrpc/connect";

import { Backoff } from "./backoff.js";
import { type Client, loadSession } from "./client.js";
import { Gap, isCut } from "./errors.js";
import type { ChatRequestSchema } from "./gen/netaclaw/chat/v1/chat_service_pb.js";
import { type ChatEvent, ReceiptState } from "./gen/netaclaw/chat/v1/event_pb.js";
import { EntryKind } from "./gen/netaclaw/session/v1/entry_pb.js";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { SessionView } from "./view.js";

export type ChatRequestInit = MessageInitShape<typeof ChatRequestSchema>;

export interface FollowOptions {
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal;
  readonly backoff?: Backoff;
  /** Given the session as it stands when the events before it are gone; without it OUT_OF_RANGE is thrown. */
  readonly snapshot?: (view: SessionView) => void;
  /** Told whenever the stream is lost (false) and whenever something arrives again (true). */
  readonly connected?: (connected: boolean) => void;
}

/**
 * Events of a session after a seq, for as long as the caller iterates: each durable one once, in order.
 *
 * Cuts, slow-reader ends and gaps are followed by another Watch from the last seq, after a pause. When events before a
 * snapshot are gone, the tree is read again and given to `snapshot`, and events go on after it. Other errors are thrown
 * as they come.
 */
export async function* follow(
  client: Client,
  sessionId: string,
  afterSeq = 0n,
  options: FollowOptions = {},
): AsyncGenerator<ChatEvent, void, undefined> {
  const { signal, snapshot, connected, backoff = new Backoff() } = options;
  let last = afterSeq;
  while (!signal?.aborted) {
    try {
      for await (const event of watch(client, sessionId, last, signal)) {
        if (event.seq) last = event.seq;
        if (event.seq || event.event.case === "heartbeat") backoff.progress();
        connected?.(true);
        yield event;
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof Gap) && ConnectError.from(error).code === Code.OutOfRange && snapshot) {
        const view = await loadSession(client, sessionId, signal ? { signal } : {});
        last = view.seq;
        snapshot(view);
      } else if (!(error instanceof Gap || isCut(error)) || backoff.exhausted) {
        throw error;
      }
    }
    connected?.(false);
    await backoff.pause(signal);
  }
}

/**
 * Send a message and yield its session's events after a seq, until its turn's `done` or `error`, or the receipt that says
 * that it was taken back.
 *
 * Survives cuts: before the first event the same request is sent again under one request id, so that it starts one
 * turn; after it, or once the message is known to wait, the session is followed from the last seq.
 */
export async function* runTurn(
  client: Client,
  request: ChatRequestInit,
  afterSeq = 0n,
  options: Omit<FollowOptions, "snapshot"> = {},
): AsyncGenerator<ChatEvent, void, undefined> {
  const { signal, backoff = new Backoff() } = options;
  const sent = { ...request, requestId: request.requestId || crypto.randomUUID() };
  const turn = new Turn(sent.requestId, afterSeq);
  while (!turn.turnId && !turn.waits) {
    try {
      for await (const event of chat(client, sent, turn, signal)) {
        yield event;
        if (turn.endedBy(event)) return;
      }
      if (turn.over || !(turn.turnId || turn.waits)) return; // the stream ended by itself: there is nothing to wait for
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof Gap || isCut(error)) || backoff.exhausted) throw error;
    }
    options.connected?.(false);
    await backoff.pause(signal);
    if (signal?.aborted) return;
  }
  for await (const event of follow(client, turn.sessionId, turn.last, { ...options, backoff })) {
    turn.note(event);
    yield event;
    if (turn.endedBy(event)) return;
  }
}

/** What is known of a turn that was started. */
export interface StartedTurn {
  readonly sessionId: string;
  /** Empty while the message waits: the receipt that says that it was taken names its turn. */
  readonly turnId: string;
}

/**
 * Send a message and return as soon as it is committed, begun or waiting; its events come by `follow` or a feed.
 *
 * The stream of the call is given back, because leaving cancels nothing, and a browser has few connections. A cut before
 * the commit is followed by the same request under one request id.
 */
export async function startTurn(
  client: Client,
  request: ChatRequestInit,
  options: Pick<FollowOptions, "backoff" | "signal"> = {},
): Promise<StartedTurn> {
  const { signal, backoff = new Backoff({ maxAttempts: 8 }) } = options;
  const sent = { ...request, requestId: request.requestId || crypto.randomUUID() };
  for (;;) {
    const leaving = new AbortController();
    const either = signal ? AbortSignal.any([signal, leaving.signal]) : leaving.signal;
    try {
      for await (const response of client.chat.chat(sent, { signal: either })) {
        const turn = new Turn(sent.requestId);
        for (const event of response.events) turn.note(event);
        if (turn.sessionId) return { sessionId: turn.sessionId, turnId: turn.turnId };
      }
      throw new ConnectError("the stream ended before its first event", Code.Unavailable);
    } catch (error) {
      if (signal?.aborted || !isCut(error) || backoff.exhausted) throw error;
    } finally {
      leaving.abort();
    }
    await backoff.pause(signal);
  }
}

/** What is known of a message that was sent. */
class Turn {
  sessionId = "";
  turnId = "";
  /** Whether it is queued: then its receipts say which turn takes it. */
  waits = false;
  /** Whether its end was told, and the caller had seen it before. */
  over = false;

  constructor(
    private readonly requestId: string,
    public last = 0n,
  ) {}

  /** A turn is named by its user entry, or by the receipt of a message that waited for it. */
  note(event: ChatEvent): void {
    this.sessionId = event.sessionId || this.sessionId;
    const receipt = this.receiptIn(event);
    if (receipt !== undefined) {
      this.waits = true;
      if (receipt === ReceiptState.TAKEN) this.turnId = event.turnId;
    } else if (!this.turnId && !this.waits && event.event.case === "sessionEntryAdded") {
      if (event.event.value.entry?.kind === EntryKind.USER) this.turnId = event.turnId;
    }
    this.over ||= event.seq <= this.last && this.endedBy(event);
  }

  /** Whether the turn ends with it, or will not begin: the message was taken back. */
  endedBy(event: ChatEvent): boolean {
    if (this.receiptIn(event) === ReceiptState.RETRACTED) return true;
    const end = event.event.case === "done" || event.event.case === "error";
    return end && this.turnId !== "" && event.turnId === this.turnId;
  }

  private receiptIn({ event }: ChatEvent): ReceiptState | undefined {
    const mine = event.case === "messageReceipt" && event.value.requestId === this.requestId;
    return mine ? event.value.state : undefined;
  }
}

/** One Chat call's events that are new to the turn. Throws Gap when one is missing. */
async function* chat(
  client: Client,
  request: ChatRequestInit,
  turn: Turn,
  signal?: AbortSignal,
): AsyncGenerator<ChatEvent, void, undefined> {
  for await (const response of abandonable(signal, (inner) => client.chat.chat(request, { signal: inner }))) {
    for (const event of response.events) {
      turn.note(event);
      if (!isNext(event, turn.last)) continue;
      if (event.seq) turn.last = event.seq;
      yield event;
    }
  }
}

/** One Watch. Throws Gap when an event is missing, by its seq or by a heartbeat's word. */
async function* watch(
  client: Client,
  sessionId: string,
  afterSeq: bigint,
  signal?: AbortSignal,
): AsyncGenerator<ChatEvent, void, undefined> {
  let last = afterSeq;
  const request = { targets: [{ sessionId, afterSeq }] };
  for await (const response of abandonable(signal, (inner) => client.chat.watch(request, { signal: inner }))) {
    for (const event of response.events) {
      if (event.sessionId && event.sessionId !== sessionId) continue;
      if (event.event.case === "heartbeat" && event.event.value.seq > last) throw new Gap(last, event.event.value.seq);
      if (!isNext(event, last)) continue;
      if (event.seq) last = event.seq;
      yield event;
    }
  }
}

/** A stream that is given back to the server when its reader leaves, in whatever way. */
export async function* abandonable<T>(
  signal: AbortSignal | undefined,
  open: (signal: AbortSignal) => AsyncIterable<T>,
): AsyncGenerator<T, void, undefined> {
  const leaving = new AbortController();
  try {
    yield* open(signal ? AbortSignal.any([signal, leaving.signal]) : leaving.signal);
  } finally {
    leaving.abort();
  }
}

/** Whether an event is to be taken: live ones always, durable ones in their turn. Throws Gap. */
export function isNext(event: ChatEvent, last: bigint): boolean {
  if (event.seq > last + 1n) throw new Gap(last, event.seq);
  return event.seq === 0n || event.seq === last + 1n;
}
