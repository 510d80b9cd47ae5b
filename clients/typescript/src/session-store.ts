import { Backoff } from "./backoff.js";
import { type Client, loadSession } from "./client.js";
import { Gap, isCut, isLimit, retryAfterMs } from "./errors.js";
import { type Feed, FeedError } from "./feed.js";
import { type ChatRequestInit, type StartedTurn, startTurn } from "./follow.js";
import type { ChatEvent } from "./gen/netaclaw/chat/v1/event_pb.js";
import { SessionView, type ViewContainers } from "./view.js";

/** `reconnecting`: what is shown may be old; it catches up by itself. */
export type SessionStatus = "loading" | "live" | "reconnecting" | "failed" | "closed";

/** What a listener is told: an event that was applied, or that everything may be another (`reset`, `status`). */
export type StoreChange =
  { readonly kind: "event"; readonly event: ChatEvent } | { readonly kind: "reset" } | { readonly kind: "status" };

export interface SessionStoreOptions {
  readonly client: Client;
  readonly feed: Feed;
  readonly sessionId: string;
  /** Reactive maps of a framework, such as Vue's `shallowReactive(new Map())`. */
  readonly containers?: ViewContainers;
}

/**
 * The view of one session for a page: loaded from its tree, kept current by a feed, the same after a reload.
 *
 * `view` is one object for the store's whole life where `containers` are given: a reset fills the same maps anew.
 */
export class SessionStore {
  view: SessionView;
  status: SessionStatus = "loading";
  error: FeedError | undefined;
  private readonly listeners = new Set<(change: StoreChange) => void>();
  private readonly leaving = new AbortController();
  private unsubscribe: () => void = () => undefined;

  constructor(private readonly options: SessionStoreOptions) {
    this.view = new SessionView(options.containers);
  }

  /** Load and follow. Resolves when the tree is there, or when it cannot be had: see `status` and `error`. */
  async open(): Promise<void> {
    const { client, sessionId, containers } = this.options;
    const { signal } = this.leaving;
    const backoff = new Backoff();
    this.become("loading");
    while (!signal.aborted) {
      try {
        const loaded = await loadSession(client, sessionId, { signal, ...(containers ? { containers } : {}) });
        if (signal.aborted) return;
        this.view = loaded;
        this.tell({ kind: "reset" });
        return this.listen();
      } catch (error) {
        if (signal.aborted) return;
        if (!isCut(error) && !isLimit(error)) return this.fail(FeedError.from(error));
        this.become("reconnecting");
        await backoff.pause(signal, retryAfterMs(error));
      }
    }
  }

  /** Be told of every change; the returned function ends that. */
  subscribe(listener: (change: StoreChange) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Send a message; resolves when its turn is committed, also after close(): what was sent stays sent. Throws ConnectError. */
  send(content: string, more: Omit<ChatRequestInit, "sessionId" | "content" | "$typeName"> = {}): Promise<StartedTurn> {
    const { client, sessionId } = this.options;
    return startTurn(client, { ...more, sessionId, content });
  }

  /** Follow no longer. */
  close(): void {
    this.unsubscribe();
    this.leaving.abort();
    this.become("closed");
    this.listeners.clear();
  }

  private listen(): void {
    this.become("live");
    this.unsubscribe = this.options.feed.subscribe(this.options.sessionId, this.view.seq, {
      event: (event) => this.take(event),
      reset: () => void this.open(),
      failed: (error) => this.fail(error),
      connected: (connected) => this.become(connected ? "live" : "reconnecting"),
    });
  }

  private take(event: ChatEvent): void {
    try {
      if (this.view.apply(event)) this.tell({ kind: "event", event });
    } catch (error) {
      if (!(error instanceof Gap)) throw error;
      this.unsubscribe();
      this.listen(); // from the last event that was applied
    }
  }

  private fail(error: FeedError): void {
    this.error = error;
    this.become("failed");
  }

  private become(status: SessionStatus): void {
    if (this.status === status || this.status === "closed") return;
    this.status = status;
    this.tell({ kind: "status" });
  }

  private tell(change: StoreChange): void {
    for (const listener of [...this.listeners]) listener(change);
  }
}
