/** What the browser tests run in a page: `window.netaclaw`. Everything goes in and comes out as JSON. */
import { create, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { DescMessage } from "@bufbuild/protobuf";
import grpcweb from "grpc-web";

import {
  connectBrowser,
  differences,
  loadSession,
  reasonOf,
  SessionStore,
  SessionView,
  sharedFeed,
} from "../../src/index.js";
import {
  ChatRequestSchema,
  ChatResponseSchema,
  PingRequestSchema,
  PingResponseSchema,
  WatchRequestSchema,
  WatchResponseSchema,
} from "../../src/gen/netaclaw/chat/v1/chat_service_pb.js";
import type { ChatEvent } from "../../src/gen/netaclaw/chat/v1/event_pb.js";

declare global {
  interface Window {
    /** Cuts every connection of this page's way in; given by the test. */
    cut?: () => Promise<void>;
  }
}

interface Asked {
  readonly baseUrl: string;
  readonly content: string;
  readonly workspace: string;
  /** Cut the connections once, when subagents have begun. */
  readonly cut?: boolean;
  /** Use the SharedWorker. */
  readonly shared?: boolean;
}

function report(view: SessionView, stored: SessionView, texts: Set<string>, streams: number) {
  return {
    sessionId: view.sessionId,
    end: view.turnEnd?.event.case,
    text: view.textOf(view.leafEntryId),
    cards: view.batches().length,
    differences: differences(view, stored),
    /** Different texts that were seen on the way: more than a few when the answer was live. */
    texts: texts.size,
    streams,
  };
}

/** The rest of a turn is one microtask after another: give the page's own work a moment, too. */
const tick = () => new Promise((resolve) => setTimeout(resolve));

async function turn(asked: Asked) {
  const { baseUrl, content, workspace } = asked;
  const client = connectBrowser({ baseUrl });
  const worker = asked.shared ? { worker: () => new SharedWorker("/worker.js", { type: "module" }) } : {};
  const feed = sharedFeed({ baseUrl, ...worker });
  const made = await client.commands.createSession({ workspace });
  const sessionId = made.session?.sessionId ?? "";
  const store = new SessionStore({ client, feed, sessionId });
  const texts = new Set<string>();
  let losses = 0;
  let cut = asked.cut ?? false;
  const ended = new Promise<void>((resolve, reject) => {
    store.subscribe((change) => {
      if (store.status === "failed") reject(store.error);
      if (change.kind === "status" && store.status === "reconnecting") losses += 1;
      if (change.kind !== "event") return;
      for (const draft of store.view.drafts.values()) texts.add(draft.text);
      if (cut && change.event.event.case === "subagentRunStarted") {
        cut = false;
        void window.cut?.();
      }
      if (store.view.turnEnd) resolve();
    });
  });
  await store.open();
  await store.send(content);
  await ended;
  await tick();
  const stored = await loadSession(client, sessionId);
  store.close();
  feed.close();
  return report(store.view, stored, texts, 1 + losses);
}

/** Google's grpc-web without generated code: its binary mode delivers a stream only at its end, so text is used. */
class Google {
  private readonly client = new grpcweb.GrpcWebClientBase({ format: "text" });

  constructor(private readonly baseUrl: string) {}

  stream<I extends DescMessage, O extends DescMessage>(
    path: string,
    input: I,
    output: O,
    request: MessageShape<I>,
    each: (message: MessageShape<O>) => void,
  ): Promise<void> {
    const method = descriptor(path, grpcweb.MethodType.SERVER_STREAMING, input, output);
    return new Promise((resolve, reject) => {
      const stream = this.client.serverStreaming(this.baseUrl + path, request, {}, method);
      stream.on("data", (message) => each(message as MessageShape<O>));
      stream.on("error", reject);
      stream.on("end", resolve);
    });
  }

  unary<I extends DescMessage, O extends DescMessage>(path: string, input: I, output: O, request: MessageShape<I>) {
    const method = descriptor(path, grpcweb.MethodType.UNARY, input, output);
    return this.client.unaryCall(this.baseUrl + path, request, {}, method) as Promise<MessageShape<O>>;
  }
}

function descriptor<I extends DescMessage, O extends DescMessage>(path: string, type: string, input: I, output: O) {
  class Any {}
  return new grpcweb.MethodDescriptor(
    path,
    type,
    Any as never,
    Any as never,
    (message: unknown) => toBinary(input, message as MessageShape<I>),
    (bytes: Uint8Array) => fromBinary(output, bytes),
  );
}

const CHAT = "/netaclaw.chat.v1.ChatService";

/** The same turn with Google's client: Chat, and after a cut Watch from the last event. */
async function googleTurn(asked: Asked) {
  const client = connectBrowser({ baseUrl: asked.baseUrl });
  const google = new Google(asked.baseUrl);
  const made = await client.commands.createSession({ workspace: asked.workspace });
  const sessionId = made.session?.sessionId ?? "";
  const view = new SessionView();
  const texts = new Set<string>();
  let cut = asked.cut ?? false;
  const take = ({ events }: { readonly events: ChatEvent[] }) => {
    for (const event of events) {
      view.apply(event);
      for (const draft of view.drafts.values()) texts.add(draft.text);
      if (cut && event.event.case === "subagentRunStarted") {
        cut = false;
        void window.cut?.();
      }
    }
  };
  const request = create(ChatRequestSchema, { sessionId, content: asked.content, requestId: crypto.randomUUID() });
  let streams = 1;
  await google.stream(`${CHAT}/Chat`, ChatRequestSchema, ChatResponseSchema, request, take).catch(() => undefined);
  while (!view.turnEnd && streams < 50) {
    streams += 1;
    const targets = [{ sessionId, afterSeq: view.seq }];
    const again = create(WatchRequestSchema, { targets });
    const watching = google.stream(`${CHAT}/Watch`, WatchRequestSchema, WatchResponseSchema, again, take);
    const ended = (async () => {
      while (!view.turnEnd) await new Promise((resolve) => setTimeout(resolve, 10));
    })();
    await Promise.race([ended, watching.catch(() => new Promise((resolve) => setTimeout(resolve, 100)))]);
  }
  return report(view, await loadSession(client, sessionId), texts, streams);
}

async function googlePing(baseUrl: string) {
  const request = create(PingRequestSchema, { nonce: "n" });
  const answer = await new Google(baseUrl).unary(`${CHAT}/Ping`, PingRequestSchema, PingResponseSchema, request);
  return answer.event?.event.case;
}

/** What an error looks like to a page, for both clients. */
async function failure(baseUrl: string) {
  const session = "0192f0c1-0000-7000-8000-000000000000";
  const client = connectBrowser({ baseUrl });
  const ours = await client.sessions.getSession({ sessionId: session }).catch((error: unknown) => error);
  const google = new Google(baseUrl);
  const theirs = await google
    .unary(`${CHAT}/CancelTurn`, WatchRequestSchema, WatchResponseSchema, create(WatchRequestSchema))
    .catch((error: unknown) => error);
  return { reason: reasonOf(ours), code: (theirs as { code?: number }).code };
}

/** Milliseconds that each of some short calls took. */
async function pings(baseUrl: string, count: number) {
  const client = connectBrowser({ baseUrl });
  const took: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const started = performance.now();
    await client.chat.ping({ nonce: String(n) });
    took.push(performance.now() - started);
  }
  return took;
}

/** Whether any call gets through from here. */
async function reach(baseUrl: string) {
  const client = connectBrowser({ baseUrl });
  const calls = [client.chat.ping({}), client.commands.createSession({})];
  const plain = fetch(`${baseUrl}${CHAT}/Ping`, { method: "POST", body: "\0\0\0\0\0", mode: "no-cors" });
  const outcomes = await Promise.allSettled(calls);
  await plain.catch(() => undefined);
  return outcomes.map(({ status }) => status);
}

async function sessionCount(baseUrl: string) {
  return (await connectBrowser({ baseUrl }).sessions.listSessions({ pageSize: 200 })).sessions.length;
}

Object.assign(window, { netaclaw: { sessionCount, turn, googleTurn, googlePing, failure, pings, reach } });
