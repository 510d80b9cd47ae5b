/** An in-process suite that answers each call with the next events and end of its script. */
import { Code, ConnectError, createRouterTransport } from "@connectrpc/connect";

import { Backoff } from "../src/backoff.js";
import { clientOn, type Client } from "../src/client.js";
import { ChatService, type ChatRequest, type WatchRequest } from "../src/gen/netaclaw/chat/v1/chat_service_pb.js";
import type { ChatEvent } from "../src/gen/netaclaw/chat/v1/event_pb.js";
import { SessionService } from "../src/gen/netaclaw/session/v1/session_service_pb.js";
import { tree } from "./recorded.js";

/** Events, then an error, an end (undefined), or silence until the client leaves. */
export type Stream = readonly [readonly ChatEvent[], ConnectError | undefined | "silence"];

export const cut = new ConnectError("cut", Code.Unavailable);

export class FakeSuite {
  readonly watches: Stream[] = [];
  readonly chats: Stream[] = [];
  readonly watched: WatchRequest[] = [];
  readonly asked: ChatRequest[] = [];
  /** Errors of the next reads of the tree. */
  readonly trees: ConnectError[] = [];
  private readonly streams = new Set<object>();
  readonly client: Client;

  constructor() {
    const suite = this;
    const transport = createRouterTransport(({ service }) => {
      service(ChatService, {
        async *watch(request, context) {
          suite.watched.push(request);
          yield* suite.play(suite.watches.shift() ?? [[], "silence"], context.signal);
        },
        async *chat(request, context) {
          suite.asked.push(request);
          yield* suite.play(suite.chats.shift() ?? [[], "silence"], context.signal);
        },
      });
      service(SessionService, {
        getSessionTree() {
          const error = suite.trees.shift();
          if (error) throw error;
          return tree;
        },
      });
    });
    this.client = clientOn(transport);
  }

  /** Streams that are open. */
  get open(): number {
    return this.streams.size;
  }

  get watchedAfter(): bigint[] {
    return this.watched.map((request) => request.targets[0]?.afterSeq ?? 0n);
  }

  private async *play([events, end]: Stream, signal: AbortSignal) {
    const stream = {};
    this.streams.add(stream);
    signal.addEventListener("abort", () => this.streams.delete(stream));
    for (const event of events) yield { events: [event] };
    if (end === "silence" && !signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    this.streams.delete(stream);
    if (end && end !== "silence") throw end;
  }
}

/** A backoff that never waits, and its pauses. */
export function impatient(maxAttempts = 0): { backoff: Backoff; pauses: number[] } {
  const pauses: number[] = [];
  const sleep = (milliseconds: number) => (pauses.push(milliseconds), Promise.resolve());
  return { pauses, backoff: new Backoff({ maxAttempts, sleep, jitter: () => 1 }) };
}
