import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";

import { differences } from "../src/comparison.js";
import { type FeedError, type FeedListener, WatchFeed } from "../src/feed.js";
import { ErrorInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { type ChatEvent, ChatEventSchema } from "../src/gen/netaclaw/chat/v1/event_pb.js";
import { SessionStore } from "../src/session-store.js";
import { SessionView } from "../src/view.js";
import { cut, FakeSuite, impatient } from "./fake-suite.js";
import { events, sessionId, stored } from "./recorded.js";

class Reader implements FeedListener {
  readonly view = new SessionView();
  readonly ended: string[] = [];
  readonly connections: boolean[] = [];

  event(event: ChatEvent): void {
    this.view.apply(event);
  }
  reset(): void {
    this.ended.push("reset");
  }
  failed(error: FeedError): void {
    this.ended.push(error.reason || Code[error.code] || "");
  }
  connected(connected: boolean): void {
    this.connections.push(connected);
  }
}

const LAST = stored().seq;
const about = (code: Code, reason: string, session: string) =>
  new ConnectError("no", code, undefined, [
    { desc: ErrorInfoSchema, value: { domain: "netaclaw", reason, metadata: { session_id: session } } },
  ]);

describe("a feed", () => {
  test("gives all subscribers of one moment one stream, and none when nobody listens", async () => {
    const suite = new FakeSuite();
    const feed = new WatchFeed(suite.client, impatient().backoff);
    const ends = ["a", "b", "c"].map((id) => feed.subscribe(id, 0n, new Reader()));
    await expect.poll(() => suite.open).toBe(1);
    expect(suite.watched.map((request) => request.targets.length)).toEqual([3]);
    for (const end of ends) end();
    await expect.poll(() => suite.open).toBe(0);
  });

  test("resumes after cuts, so that the view is the stored one", async () => {
    const suite = new FakeSuite();
    const all = events();
    for (let n = 0; n < all.length; n += 7) suite.watches.push([all.slice(Math.max(0, n - 3), n + 7), cut]);
    suite.watches.push([all, "silence"]);
    const feed = new WatchFeed(suite.client, impatient().backoff);
    const reader = new Reader();
    feed.subscribe(sessionId, 0n, reader);
    await expect.poll(() => reader.view.seq).toBe(LAST);
    expect(differences(reader.view, stored())).toEqual([]);
    expect(reader.connections).toContain(false);
    feed.close();
  });

  test("serves a reader that comes later and is behind", async () => {
    const suite = new FakeSuite();
    suite.watches.push([events(), "silence"], [events(), "silence"]);
    const feed = new WatchFeed(suite.client, impatient().backoff);
    const [first, second] = [new Reader(), new Reader()];
    feed.subscribe(sessionId, 0n, first);
    await expect.poll(() => first.view.seq).toBe(LAST);
    feed.subscribe(sessionId, 0n, second);
    await expect.poll(() => second.view.seq).toBe(LAST);
    expect(differences(first.view, second.view)).toEqual([]);
    expect(suite.open).toBe(1);
    feed.close();
  });

  test("drops the session that an error names, and follows the others", async () => {
    const suite = new FakeSuite();
    suite.watches.push([[], about(Code.NotFound, "SESSION_NOT_FOUND", "gone")]);
    suite.watches.push([[], about(Code.OutOfRange, "SEQ_OUT_OF_RANGE", "old")]);
    suite.watches.push([events(), "silence"]);
    const feed = new WatchFeed(suite.client, impatient().backoff);
    const readers = { gone: new Reader(), old: new Reader(), [sessionId]: new Reader() };
    for (const [id, reader] of Object.entries(readers)) feed.subscribe(id, 0n, reader);
    await expect.poll(() => readers[sessionId]!.view.seq).toBe(LAST);
    expect([readers.gone.ended, readers.old.ended]).toEqual([["SESSION_NOT_FOUND"], ["reset"]]);
    feed.close();
  });

  test("tells everybody when the credential is refused", async () => {
    const suite = new FakeSuite();
    suite.watches.push([[], new ConnectError("no", Code.Unauthenticated)]);
    const feed = new WatchFeed(suite.client, impatient().backoff);
    const readers = [new Reader(), new Reader()];
    readers.forEach((reader, n) => feed.subscribe(`s${n}`, 0n, reader));
    await expect.poll(() => readers.map((reader) => reader.ended)).toEqual([["Unauthenticated"], ["Unauthenticated"]]);
    expect(suite.watched).toHaveLength(1);
  });

  test("carries changes of the list of sessions, and says from when on it does, on every stream", async () => {
    const suite = new FakeSuite();
    const listed = create(ChatEventSchema, { event: { case: "sessionListChanged", value: { deleted: true } } });
    const begins = create(ChatEventSchema, { event: { case: "heartbeat", value: {} } });
    suite.watches.push([[begins, listed, begins], cut], [[begins], "silence"]);
    const feed = new WatchFeed(suite.client, impatient().backoff);
    const heard: string[] = [];
    feed.onSessionList({ event: () => heard.push("changed"), listening: () => heard.push("listening") });
    await expect.poll(() => heard).toEqual(["listening", "changed", "listening"]);
    expect(suite.watched[0]?.includeSessionList).toBe(true);
    feed.close();
  });

  test("gives a stream up that carries nothing, not even heartbeats", async () => {
    const suite = new FakeSuite();
    suite.watches.push([[], "silence"], [events(), "silence"]);
    const feed = new WatchFeed(suite.client, impatient().backoff, 20);
    const reader = new Reader();
    feed.subscribe(sessionId, 0n, reader);
    await expect.poll(() => reader.view.seq).toBe(LAST);
    expect(reader.connections.slice(0, 2)).toEqual([false, true]);
    feed.close();
  });
});

describe("a session's store", () => {
  test("loads the tree, follows, and says what changed", async () => {
    const suite = new FakeSuite();
    const feed = new WatchFeed(suite.client, impatient().backoff);
    const containers = { entries: new Map(), drafts: new Map(), toolOutputs: new Map() };
    const store = new SessionStore({ client: suite.client, feed, sessionId, containers });
    const heard: string[] = [];
    store.subscribe((change) => heard.push(change.kind));
    await store.open();
    expect([store.status, containers.entries.size]).toEqual(["live", 5]);
    expect(heard).toEqual(["reset", "status"]);
    await expect.poll(() => suite.watchedAfter).toEqual([LAST]);
    store.close();
    await expect.poll(() => suite.open).toBe(0);
  });

  test("loads again when the events before it are gone", async () => {
    const suite = new FakeSuite();
    suite.watches.push([[], about(Code.OutOfRange, "SEQ_OUT_OF_RANGE", sessionId)]);
    const store = new SessionStore({
      client: suite.client,
      feed: new WatchFeed(suite.client, impatient().backoff),
      sessionId,
    });
    await store.open();
    await expect.poll(() => suite.watched.length).toBe(2);
    expect(store.status).toBe("live");
    store.close();
  });
});
