import { fromBinary } from "@bufbuild/protobuf";

import { connectBrowser } from "../browser.js";
import type { ConnectOptions } from "../client.js";
import { type Feed, FeedError, type FeedListener, type SessionListListener, WatchFeed } from "../feed.js";
import { ChatEventSchema } from "../gen/netaclaw/chat/v1/event_pb.js";
import { Link } from "./link.js";
import { ALIVE_EVERY_MS, type ToTab } from "./messages.js";

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
      return new PortFeed(worker, connect);
    } catch {
      // Not allowed here, by policy or by an old browser: the tab has a stream of its own.
    }
  }
  return new WatchFeed(connectBrowser(connect));
}

/** A session with the position from which it is asked for again, or the list; `end` ends it on a stream of this tab. */
type Listening = ({ session: FeedListener; sessionId: string; last: bigint } | { list: SessionListListener }) & {
  end?: (() => void) | undefined;
};

/** Workers that are tried one after another, without a word from any, before the tab has a stream of its own. */
const MOST_SILENT = 2;

/**
 * The tab's end of a feed in a worker. A worker that does not answer has died, or gave the tab up while it was frozen:
 * everything is asked for again, of another one.
 */
class PortFeed implements Feed {
  private readonly listening = new Map<number, Listening>();
  private readonly alive: ReturnType<typeof setInterval>;
  private link: Link | undefined;
  /** Made when no worker can be had any more. */
  private own: Feed | undefined;
  private closed = false;
  private next = 1;
  /** Whether the worker was asked for a sign of life, and gave none yet. */
  private unanswered = false;
  private silent = 0;
  private readonly onHide = (event: PageTransitionEvent) => {
    if (!event.persisted) this.close();
  };

  /** Throws where a worker is not allowed. */
  constructor(
    private readonly worker: () => SharedWorker,
    private readonly options: ConnectOptions,
  ) {
    this.link = this.linked();
    this.alive = setInterval(() => this.look(), ALIVE_EVERY_MS);
    globalThis.addEventListener?.("pagehide", this.onHide as EventListener);
  }

  subscribe(sessionId: string, afterSeq: bigint, listener: FeedListener): () => void {
    return this.listen({ session: listener, sessionId, last: afterSeq });
  }

  onSessionList(listener: SessionListListener): () => void {
    return this.listen({ list: listener });
  }

  close(): void {
    this.closed = true;
    clearInterval(this.alive);
    globalThis.removeEventListener?.("pagehide", this.onHide as EventListener);
    this.listening.clear();
    this.link?.close();
    this.own?.close();
  }

  private listen(listening: Listening): () => void {
    const id = this.next++;
    this.listening.set(id, listening);
    this.ask(id, listening);
    return () => {
      if (!this.listening.delete(id)) return;
      if (this.own) listening.end?.();
      else this.link?.tell({ kind: "unsubscribe", id });
    };
  }

  private ask(id: number, listening: Listening): void {
    if (this.own) listening.end = "list" in listening ? this.ownList(listening) : this.ownSession(id, listening);
    else if ("list" in listening) this.link?.tell({ kind: "list", id });
    else this.link?.tell({ kind: "subscribe", id, sessionId: listening.sessionId, afterSeq: listening.last });
  }

  private linked(): Link {
    return new Link(this.worker().port, this.options, (message) => this.heard(message));
  }

  /** Once in a while: is the worker there? */
  private look(): void {
    if (this.unanswered && ++this.silent) this.renew();
    this.unanswered = true;
    this.link?.tell({ kind: "alive" });
  }

  /** Everything that is listened to is asked for again. */
  private renew(): void {
    this.link?.close();
    this.link = undefined;
    this.unanswered = false;
    for (const each of this.listening.values()) if ("session" in each) each.session.connected?.(false);
    try {
      if (this.silent <= MOST_SILENT) this.link = this.linked();
    } catch {
      // Not allowed any more: as if none answered.
    }
    if (!this.link) {
      this.own = new WatchFeed(connectBrowser(this.options));
      clearInterval(this.alive);
    }
    for (const [id, each] of this.listening) this.ask(id, each);
  }

  private ownList({ list }: { list: SessionListListener }): (() => void) | undefined {
    return this.own?.onSessionList(list);
  }

  private ownSession(
    id: number,
    { session, sessionId, last }: { session: FeedListener; sessionId: string; last: bigint },
  ): (() => void) | undefined {
    return this.own?.subscribe(sessionId, last, {
      event: (event) => session.event(event),
      connected: (connected) => session.connected?.(connected),
      reset: () => this.listening.delete(id) && session.reset(),
      failed: (error) => this.listening.delete(id) && session.failed(error),
    });
  }

  private heard(message: ToTab): void {
    this.unanswered = false;
    this.silent = 0;
    if (message.kind === "gone") {
      if (!this.closed) this.renew();
      return;
    }
    const listening = message.kind === "alive" ? undefined : this.listening.get(message.id);
    if (!listening || message.kind === "alive") return;
    if ("list" in listening) {
      if (message.kind === "event") listening.list.event(fromBinary(ChatEventSchema, message.event));
      if (message.kind === "listening") listening.list.listening?.();
      return;
    }
    const listener = listening.session;
    switch (message.kind) {
      case "event": {
        const event = fromBinary(ChatEventSchema, message.event);
        if (event.seq > listening.last) listening.last = event.seq;
        return listener.event(event);
      }
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
}
