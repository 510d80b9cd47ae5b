import { fromBinary } from "@bufbuild/protobuf";

import { connectBrowser } from "../browser.js";
import type { ConnectOptions } from "../client.js";
import { type Feed, FeedError, type FeedListener, type SessionListListener, WatchFeed } from "../feed.js";
import { ChatEventSchema } from "../gen/netaclaw/chat/v1/event_pb.js";
import { ALIVE_EVERY_MS, type ToTab, type ToWorker } from "./messages.js";

export interface SharedFeedOptions extends ConnectOptions {
  /** Makes the worker from the bundled `@netaclaw/client/worker`; undefined where it should not be used. */
  readonly worker?: () => SharedWorker;
}

/**
 * One stream for all tabs of a browser, held by a SharedWorker; where there is none, one for this tab.
 *
 * HTTP/1.1 grants a site six connections in all tabs together, so a stream in each of them would starve the others.
 */
export function sharedFeed(options: SharedFeedOptions): Feed {
  const { worker, ...connect } = options;
  if (worker && typeof SharedWorker !== "undefined") {
    try {
      return new PortFeed(worker().port, connect);
    } catch {
      // Not allowed here, by policy or by an old browser: the tab has a stream of its own.
    }
  }
  return new WatchFeed(connectBrowser(connect));
}

type Listening = { session: FeedListener } | { list: SessionListListener };

/** The tab's end of a feed in a worker. */
class PortFeed implements Feed {
  private readonly listening = new Map<number, Listening>();
  private readonly alive: ReturnType<typeof setInterval>;
  private readonly lock = `netaclaw-${crypto.randomUUID()}`;
  private release: () => void = () => undefined;
  private next = 1;
  /** What was to be said before the worker knows this tab; undefined afterwards. */
  private early: ToWorker[] | undefined = [];
  private readonly onHide = (event: PageTransitionEvent) => {
    if (!event.persisted) this.close();
  };

  constructor(
    private readonly port: MessagePort,
    options: ConnectOptions,
  ) {
    port.onmessage = ({ data }: MessageEvent<ToTab>) => this.heard(data);
    // The worker asks for the same lock: it is granted when this tab is gone, however it went.
    const held = new Promise<void>((resolve) => (this.release = resolve));
    const locks = globalThis.navigator?.locks;
    const hello = () => this.greet(options);
    if (locks) void locks.request(this.lock, () => (hello(), held));
    else hello();
    this.alive = setInterval(() => this.tell({ kind: "alive" }), ALIVE_EVERY_MS);
    globalThis.addEventListener?.("pagehide", this.onHide as EventListener);
  }

  subscribe(sessionId: string, afterSeq: bigint, listener: FeedListener): () => void {
    return this.listen({ session: listener }, (id) => ({ kind: "subscribe", id, sessionId, afterSeq }));
  }

  onSessionList(listener: SessionListListener): () => void {
    return this.listen({ list: listener }, (id) => ({ kind: "list", id }));
  }

  close(): void {
    clearInterval(this.alive);
    globalThis.removeEventListener?.("pagehide", this.onHide as EventListener);
    this.listening.clear();
    this.tell({ kind: "bye" });
    this.release();
  }

  private listen(listener: Listening, message: (id: number) => ToWorker): () => void {
    const id = this.next++;
    this.listening.set(id, listener);
    this.tell(message(id));
    return () => {
      if (this.listening.delete(id)) this.tell({ kind: "unsubscribe", id });
    };
  }

  private heard(message: ToTab): void {
    const listening = this.listening.get(message.id);
    if (!listening) return;
    if ("list" in listening) {
      if (message.kind === "event") listening.list.event(fromBinary(ChatEventSchema, message.event));
      if (message.kind === "listening") listening.list.listening?.();
      return;
    }
    const listener = listening.session;
    switch (message.kind) {
      case "event":
        return listener.event(fromBinary(ChatEventSchema, message.event));
      case "connected":
        return listener.connected?.(message.connected);
      case "reset":
        this.listening.delete(message.id);
        return listener.reset();
      case "failed":
        this.listening.delete(message.id);
        return listener.failed(new FeedError(message.message, message.code, message.reason));
    }
  }

  /** `hello` comes first; the lock is granted a moment later than the page begins to ask. */
  private greet(options: ConnectOptions): void {
    const early = this.early ?? [];
    this.early = undefined;
    for (const message of [{ kind: "hello" as const, options, lock: this.lock }, ...early]) this.tell(message);
  }

  private tell(message: ToWorker): void {
    if (this.early) this.early.push(message);
    else this.port.postMessage(message);
  }
}
