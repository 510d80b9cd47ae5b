import { Code, ConnectError } from "@connectrpc/connect";

import { Backoff } from "./backoff.js";
import type { Client } from "./client.js";
import { Gap, isCut, isLimit, reasonMetadata, reasonOf, retryAfterMs } from "./errors.js";
import { isNext } from "./follow.js";
import type { WatchResponse } from "./gen/netaclaw/chat/v1/chat_service_pb.js";
import type { ChatEvent } from "./gen/netaclaw/chat/v1/event_pb.js";
import { abandonable, SILENT_MS } from "./streams.js";

/** Why a feed gave a session up; errors of a shared feed come from another thread, so they are plain. */
export class FeedError extends Error {
  constructor(
    message: string,
    readonly code: Code,
    /** As reasonOf() gives it. */
    readonly reason: string,
  ) {
    super(message);
    this.name = "FeedError";
  }

  static from(error: unknown): FeedError {
    if (error instanceof FeedError) return error;
    const connect = ConnectError.from(error);
    return new FeedError(connect.rawMessage, connect.code, reasonOf(error));
  }
}

export interface FeedListener {
  /** An event: live ones as they come, durable ones in order; some may come again and are to be ignored. */
  event(event: ChatEvent): void;
  /** The events after the position are gone: load the session and subscribe anew. The subscription has ended. */
  reset(): void;
  /** The session cannot be followed: it does not exist, or the credential does not open it. The subscription has ended. */
  failed(error: FeedError): void;
  /** The stream was lost (false), or carries something again (true). */
  connected?(connected: boolean): void;
}

export interface SessionListListener {
  /** A `session_list_changed` event. */
  event(event: ChatEvent): void;
  /** Changes are heard of from now on: those before are to be read. Told again whenever the stream was made again. */
  listening?(): void;
}

/** One stream for any number of sessions. */
export interface Feed {
  /** Follow a session after a seq; the returned function ends that. */
  subscribe(sessionId: string, afterSeq: bigint, listener: FeedListener): () => void;
  /** Hear of changes to the caller's list of sessions; the returned function ends that. */
  onSessionList(listener: SessionListListener): () => void;
  /** End everything. */
  close(): void;
}

interface Target {
  /** Of the last durable event that all listeners were given. */
  last: bigint;
  readonly listeners: Set<FeedListener>;
}

/**
 * A feed on one Watch call, made again whenever what it follows changes, it is cut, or an event is missing.
 *
 * The stream exists only while somebody listens. A subscriber that is behind the others moves the session's position
 * back: the others are given those events again and ignore them.
 */
export class WatchFeed implements Feed {
  private readonly targets = new Map<string, Target>();
  private readonly lists = new Set<SessionListListener>();
  private stream: AbortController | undefined;
  private running = false;
  private closed = false;
  /** Whether the stream of this moment has said that it tells of the list. */
  private listed = false;

  constructor(
    private readonly client: Client,
    private readonly backoff: Backoff = new Backoff(),
    private readonly silentMs = SILENT_MS,
  ) {}

  subscribe(sessionId: string, afterSeq: bigint, listener: FeedListener): () => void {
    const target = this.targets.get(sessionId) ?? { last: afterSeq, listeners: new Set() };
    if (afterSeq < target.last) target.last = afterSeq;
    target.listeners.add(listener);
    this.targets.set(sessionId, target);
    this.changed();
    return () => {
      if (!target.listeners.delete(listener) || target.listeners.size) return;
      if (this.targets.get(sessionId) === target) this.targets.delete(sessionId);
      this.changed();
    };
  }

  onSessionList(listener: SessionListListener): () => void {
    this.lists.add(listener);
    this.changed(); // made again for one more listener, too, so that it is told when to read
    return () => {
      if (this.lists.delete(listener) && !this.lists.size) this.changed();
    };
  }

  close(): void {
    this.closed = true;
    this.targets.clear();
    this.lists.clear();
    this.stream?.abort();
  }

  /** What is followed is another set now: the stream is made again, once for all changes of one moment. */
  private changed(): void {
    if (this.closed) return;
    if (this.running) this.stream?.abort();
    else {
      this.running = true;
      queueMicrotask(() => void this.run());
    }
  }

  private async run(): Promise<void> {
    while (!this.closed && (this.targets.size || this.lists.size)) {
      const stream = (this.stream = new AbortController());
      await Promise.resolve(); // subscribers of the same moment share the stream
      if (stream.signal.aborted) continue;
      let delay = 0;
      try {
        await this.watch(stream.signal);
      } catch (error) {
        if (stream.signal.aborted) continue; // what is followed has changed
        if (this.settled(error)) continue;
        delay = retryAfterMs(error) ?? 0;
      }
      if (stream.signal.aborted) continue;
      this.tell(false);
      await this.backoff.pause(stream.signal, delay);
    }
    this.running = false;
  }

  private async watch(signal: AbortSignal): Promise<void> {
    const targets = [...this.targets].map(([sessionId, { last }]) => ({ sessionId, afterSeq: last }));
    const request = { targets, includeSessionList: this.lists.size > 0 };
    const open = (inner: AbortSignal) => this.client.chat.watch(request, { signal: inner });
    let heard = false;
    this.listed = false;
    for await (const response of abandonable(signal, open, this.silentMs)) {
      if (signal.aborted) return;
      if (!heard) this.tell(true);
      heard = true;
      this.deliver(response);
    }
  }

  private deliver(response: WatchResponse): void {
    for (const event of response.events) {
      const kind = event.event;
      if (kind.case === "sessionListChanged") {
        for (const listener of this.lists) listener.event(event);
        continue;
      }
      if (kind.case === "heartbeat" && !event.sessionId) {
        if (!this.listed) for (const listener of this.lists) listener.listening?.();
        this.listed = true;
        continue;
      }
      const target = this.targets.get(event.sessionId);
      if (!target) continue;
      if (kind.case === "heartbeat" && kind.value.seq > target.last) throw new Gap(target.last, kind.value.seq);
      if (!isNext(event, target.last)) continue;
      if (event.seq) target.last = event.seq;
      if (event.seq || kind.case === "heartbeat") this.backoff.progress();
      for (const listener of [...target.listeners]) listener.event(event);
    }
  }

  /** Whether an error was an answer, to one session or to all; a cut is not, nor a limit that asks for patience. */
  private settled(error: unknown): boolean {
    if (error instanceof Gap || isCut(error) || isLimit(error)) return false;
    const { code } = ConnectError.from(error);
    const named = reasonMetadata(error).session_id ?? "";
    const concerned = this.targets.has(named) ? [named] : [...this.targets.keys()];
    for (const sessionId of concerned) {
      const listeners = this.targets.get(sessionId)?.listeners ?? [];
      this.targets.delete(sessionId);
      for (const listener of listeners) {
        if (code === Code.OutOfRange) listener.reset();
        else listener.failed(FeedError.from(error));
      }
    }
    if (!concerned.length) this.lists.clear(); // nothing but the list was followed, and it is refused
    return true;
  }

  private tell(connected: boolean): void {
    for (const { listeners } of this.targets.values()) {
      for (const listener of listeners) listener.connected?.(connected);
    }
  }
}
