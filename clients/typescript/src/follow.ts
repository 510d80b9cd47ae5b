import { Code, ConnectError } from "@connectrpc/connect";

import { Backoff } from "./backoff.js";
import { type Client, loadSession } from "./client.js";
import { Gap, isCut, isLimit, retryAfterMs } from "./errors.js";
import type { ChatRequestSchema } from "./gen/netaclaw/chat/v1/chat_service_pb.js";
import { type ChatEvent, ReceiptState } from "./gen/netaclaw/chat/v1/event_pb.js";
import { EntryKind } from "./gen/netaclaw/session/v1/entry_pb.js";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { abandonable, SILENT_MS } from "./streams.js";
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
  /** A stream that carries nothing for so long, not even heartbeats, was cut. 45 s by default. */
  readonly silentMs?: number;
}

/**
 * Events of a session after a seq, for as long as the caller iterates: each durable one once, in order.
 *
 * Cuts, silence, slow-reader ends and gaps are followed by another Watch from the last seq, after a pause, and so is a
 * limit that refuses it once something has been followed. When events before a snapshot are gone, the tree is read again
 * and given to `snapshot`, and events go on after it. Other errors are thrown as they come.
 */
export async function* follow(
  client: Client,
  sessionId: string,
  afterSeq = 0n,
  options: FollowOptions = {},
): AsyncGenerator<ChatEvent, void, undefined> {
  yield* followed(client, sessionId, afterSeq, options, false);
}

async function* followed(
  client: Client,
  sessionId: string,
  afterSeq: bigint,
  options: FollowOptions,
  begun: boolean,
): AsyncGenerator<ChatEvent, void, undefined> {
  const { signal, snapshot, connected, backoff = new Backoff() } = options;
  let last = afterSeq;
  while (!signal?.aborted) {
    let delay = 0;
    try {
      for await (const event of watch(client, sessionId, last, options)) {
        begun = true;
        if (event.seq) last = event.seq;
        if (event.seq || event.event.case === "heartbeat") backoff.progress();
        connected?.(true);
        yield event;
      }
    } catch (error) {
      if (signal?.aborted) return;
      if (!(error instanceof Gap) && ConnectError.from(error).code === Code.OutOfRange && snapshot) {
        const view = await reloaded(client, sessionId, options);
        if (signal?.aborted) return;
        if (view) {
          last = view.seq;
          snapshot(view);
        }
      } else if (!isResumable(error, begun) || backoff.exhausted) {
        throw error;
      } else delay = retryAfterMs(error) ?? 0;
    }
    connected?.(false);
    await backoff.pause(signal, delay);
  }
}

/** The session as it stands; undefined when reading it was cut: then the next Watch asks for it again. */
async function reloaded(client: Client, sessionId: string, options: FollowOptions): Promise<SessionView | undefined> {
  const { signal, backoff } = options;
  try {
    return await loadSession(client, sessionId, signal ? { signal } : {});
  } catch (error) {
    if (!signal?.aborted && (!isCut(error) || backoff?.exhausted)) throw error;
    return undefined;
  }
}

/** Whether another try may bring more; a limit is an answer where nothing had begun. */
function isResumable(error: unknown, begun: boolean): boolean {
  return error instanceof Gap || isCut(error) || (begun && isLimit(error));
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
  for (let tries = 0; !turn.turnId && !turn.waits; tries += 1) {
    let delay = 0;
    try {
      for await (const event of chat(client, sent, turn, options)) {
        yield event;
        if (turn.endedBy(event)) return;
      }
      if (turn.over) return;
      if (backoff.exhausted) throw endedEarly();
    } catch (error) {
      if (signal?.aborted) return;
      if (!isResumable(error, tries > 0) || backoff.exhausted) throw error;
      delay = retryAfterMs(error) ?? 0;
    }
    options.connected?.(false);
    await backoff.pause(signal, delay);
    if (signal?.aborted) return;
  }
  for await (const event of followed(client, turn.sessionId, turn.last, { ...options, backoff }, true)) {
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
  options: Pick<FollowOptions, "backoff" | "signal" | "silentMs"> = {},
): Promise<StartedTurn> {
  const { signal, backoff = new Backoff({ maxAttempts: 8 }) } = options;
  const sent = { ...request, requestId: request.requestId || crypto.randomUUID() };
  const open = (inner: AbortSignal) => client.chat.chat(sent, { signal: inner });
  for (let tries = 0; ; tries += 1) {
    let delay = 0;
    try {
      for await (const response of abandonable(signal, open, options.silentMs ?? SILENT_MS)) {
        const turn = new Turn(sent.requestId);
        for (const event of response.events) turn.note(event);
        if (turn.sessionId) return { sessionId: turn.sessionId, turnId: turn.turnId };
      }
      throw endedEarly();
    } catch (error) {
      if (signal?.aborted || !isResumable(error, tries > 0) || backoff.exhausted) throw error;
      delay = retryAfterMs(error) ?? 0;
    }
    await backoff.pause(signal, delay);
  }
}

function endedEarly(): ConnectError {
  return new ConnectError("the stream ended before its first event", Code.Unavailable);
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
  { signal, silentMs = SILENT_MS }: FollowOptions,
): AsyncGenerator<ChatEvent, void, undefined> {
  const open = (inner: AbortSignal) => client.chat.chat(request, { signal: inner });
  for await (const response of abandonable(signal, open, silentMs)) {
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
  { signal, silentMs = SILENT_MS }: FollowOptions,
): AsyncGenerator<ChatEvent, void, undefined> {
  let last = afterSeq;
  const request = { targets: [{ sessionId, afterSeq }] };
  const open = (inner: AbortSignal) => client.chat.watch(request, { signal: inner });
  for await (const response of abandonable(signal, open, silentMs)) {
    for (const event of response.events) {
      if (event.sessionId && event.sessionId !== sessionId) continue;
      if (event.event.case === "heartbeat" && event.event.value.seq > last) throw new Gap(last, event.event.value.seq);
      if (!isNext(event, last)) continue;
      if (event.seq) last = event.seq;
      yield event;
    }
  }
}

/** Whether an event is to be taken: live ones always, durable ones in their turn. Throws Gap. */
export function isNext(event: ChatEvent, last: bigint): boolean {
  if (event.seq > last + 1n) throw new Gap(last, event.seq);
  return event.seq === 0n || event.seq === last + 1n;
}
