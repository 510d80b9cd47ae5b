/// The SharedWorker: holds the one stream of all tabs. Bundle this file as a worker of its own.
import { toBinary } from "@bufbuild/protobuf";

import { connectBrowser } from "../browser.js";
import type { ConnectOptions } from "../client.js";
import { type Feed, WatchFeed } from "../feed.js";
import { ChatEventSchema, type ChatEvent } from "../gen/netaclaw/chat/v1/event_pb.js";
import { GONE_AFTER_MS, type ToTab, type ToWorker } from "./messages.js";

/** Feeds by whom and where they ask: tabs with another key do not share. */
const feeds = new Map<string, Feed>();

function feedFor(options: ConnectOptions): Feed {
  const key = JSON.stringify([options.baseUrl, options.apiKey ?? ""]);
  let feed = feeds.get(key);
  if (!feed) feeds.set(key, (feed = new WatchFeed(connectBrowser(options))));
  return feed;
}

/** Serves one tab until it says goodbye, its lock is free, or it is silent for too long. */
function serve(port: MessagePort): void {
  const subscriptions = new Map<number, () => void>();
  let feed: Feed | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const tell = (message: ToTab) => port.postMessage(message);
  const leave = () => {
    clearTimeout(timer);
    for (const end of subscriptions.values()) end();
    subscriptions.clear();
    tell({ kind: "gone" }); // heard by a tab that was frozen only
    port.close();
  };
  const heard = () => {
    clearTimeout(timer);
    timer = setTimeout(leave, GONE_AFTER_MS);
  };
  const sent = (id: number, event: ChatEvent) => tell({ kind: "event", id, event: toBinary(ChatEventSchema, event) });

  port.onmessage = ({ data }: MessageEvent<ToWorker>) => {
    heard();
    switch (data.kind) {
      case "hello":
        feed = feedFor(data.options);
        void globalThis.navigator?.locks?.request(data.lock, leave);
        return;
      case "subscribe": {
        const { id } = data;
        const end = feed?.subscribe(data.sessionId, data.afterSeq, {
          event: (event) => sent(id, event),
          reset: () => tell({ kind: "reset", id }),
          failed: ({ code, message, reason }) => tell({ kind: "failed", id, code, message, reason }),
          connected: (connected) => tell({ kind: "connected", id, connected }),
        });
        if (end) subscriptions.set(id, end);
        return;
      }
      case "list": {
        const { id } = data;
        const end = feed?.onSessionList({
          event: (event) => sent(id, event),
          listening: () => tell({ kind: "listening", id }),
        });
        if (end) subscriptions.set(id, end);
        return;
      }
      case "unsubscribe":
        subscriptions.get(data.id)?.();
        subscriptions.delete(data.id);
        return;
      case "bye":
        return leave();
      case "alive":
        return tell({ kind: "alive" });
    }
  };
  heard();
}

const scope = globalThis as unknown as { onconnect: ((event: MessageEvent) => void) | null };
scope.onconnect = (event) => {
  const [port] = event.ports;
  if (port) serve(port);
};
