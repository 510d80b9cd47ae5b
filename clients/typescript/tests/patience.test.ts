/** Streams that say nothing, suites that ask for patience, and snapshots that cannot be read at once. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";

import { WatchFeed } from "../src/feed.js";
import { follow, type FollowOptions, runTurn, startTurn } from "../src/follow.js";
import { ErrorInfoSchema, RetryInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { type ChatEvent, ChatEventSchema } from "../src/gen/netaclaw/chat/v1/event_pb.js";
import { SessionStore } from "../src/session-store.js";
import { cut, FakeSuite, impatient } from "./fake-suite.js";
import { events, sessionId, stored } from "./recorded.js";

const durable = () => events().filter((event) => event.seq);
const ask = { sessionId, content: "count them" };
const after = (code: Code, reason: string, seconds: number) =>
  new ConnectError("later", code, undefined, [
    { desc: ErrorInfoSchema, value: { domain: "netaclaw", reason } },
    { desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(seconds) } } },
  ]);
const limited = (seconds = 3) => after(Code.ResourceExhausted, "LIMIT_REACHED", seconds);

async function followed(suite: FakeSuite, until: number, options: FollowOptions): Promise<number[]> {
  const got: number[] = [];
  for await (const event of follow(suite.client, sessionId, 0n, options)) {
    if (event.seq) got.push(Number(event.seq));
    if (Number(event.seq) === until) break;
  }
  return got;
}

async function turn(suite: FakeSuite, options: FollowOptions): Promise<ChatEvent[]> {
  const got: ChatEvent[] = [];
  for await (const event of runTurn(suite.client, ask, 0n, options)) got.push(event);
  return got;
}

describe("a stream that carries nothing, not even heartbeats", () => {
  test("is watched again from the last event", async () => {
    const suite = new FakeSuite();
    suite.watches.push([durable().slice(0, 3), "silence"], [durable().slice(3, 5), "silence"]);
    expect(await followed(suite, 5, { ...impatient(3), silentMs: 20 })).toEqual([1, 2, 3, 4, 5]);
    expect(suite.watchedAfter).toEqual([0n, 3n]);
    await expect.poll(() => suite.open).toBe(0);
  });

  test("is a cut for a turn, before its first event and after it", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[], "silence"], [events().slice(0, 5), "silence"]);
    suite.watches.push([events(), "silence"]);
    const got = await turn(suite, { ...impatient(3), silentMs: 20 });
    expect(got.filter((event) => event.seq).length).toBe(durable().length);
    expect(new Set(suite.asked.map(({ requestId }) => requestId)).size).toBe(1);
    expect(suite.asked).toHaveLength(2);
  });

  test("is a cut for a turn that is only started", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[], "silence"], [events().slice(0, 1), "silence"]);
    const started = await startTurn(suite.client, ask, { ...impatient(3), silentMs: 20 });
    expect(started.turnId).toBe(events()[0]!.turnId);
  });

  test("is not one whose reader takes its time", async () => {
    const suite = new FakeSuite();
    suite.watches.push([durable().slice(0, 2), "silence"]);
    for await (const event of follow(suite.client, sessionId, 0n, { ...impatient(3), silentMs: 20 })) {
      if (event.seq === 2n) break;
      await new Promise((resolve) => setTimeout(resolve, 60)); // longer than a stream may be silent
    }
    expect(suite.watched).toHaveLength(1);
  });
});

test("a turn whose stream ends well before its first event is asked for again", async () => {
  const suite = new FakeSuite();
  suite.chats.push([[], undefined], [events(), undefined]);
  expect(await turn(suite, impatient(3))).toHaveLength(events().length);
});

test("a snapshot that cannot be read at once is read a moment later", async () => {
  const suite = new FakeSuite();
  const gone = new ConnectError("gone", Code.OutOfRange);
  const last = stored().seq;
  const heartbeat = create(ChatEventSchema, { sessionId, event: { case: "heartbeat", value: { seq: last } } });
  suite.watches.push([[], gone], [[], gone], [[heartbeat], "silence"]);
  suite.trees.push(cut);
  const seqs: bigint[] = [];
  const options = { ...impatient(3), snapshot: (view: { seq: bigint }) => seqs.push(view.seq) };
  for await (const event of follow(suite.client, sessionId, 3n, options)) {
    if (event.event.case === "heartbeat") break;
  }
  expect(seqs).toEqual([last]);
  expect(suite.watchedAfter).toEqual([3n, 3n, last]);
});

describe("a delay that the suite asks for", () => {
  test("is kept before the next try", async () => {
    const suite = new FakeSuite();
    suite.watches.push([[], after(Code.Unavailable, "SHUTTING_DOWN", 2)], [durable().slice(0, 1), "silence"]);
    const { backoff, pauses } = impatient(3);
    await followed(suite, 1, { backoff });
    expect(pauses).toEqual([2_100]);
  });

  test("is kept where a limit refuses what was followed before", async () => {
    const suite = new FakeSuite();
    suite.watches.push([durable().slice(0, 1), cut], [[], limited()], [durable().slice(1, 2), "silence"]);
    const { backoff, pauses } = impatient(3);
    expect(await followed(suite, 2, { backoff })).toEqual([1, 2]);
    expect(pauses).toEqual([100, 3_200]);
  });

  test("is kept where a limit refuses a turn that may have begun", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[], cut], [[], limited()], [events(), undefined]);
    const { backoff, pauses } = impatient(4);
    expect(await turn(suite, { backoff })).toHaveLength(events().length);
    expect(pauses).toEqual([100, 3_200]);
    suite.chats.push([[], cut], [[], limited()], [events(), "silence"]);
    await expect(startTurn(suite.client, ask, impatient(4))).resolves.toHaveProperty("turnId");
  });

  test("is the caller's to keep where nothing has begun", async () => {
    const suite = new FakeSuite();
    suite.watches.push([[], limited()]);
    suite.chats.push([[], limited()], [[], limited()]);
    const refused = { code: Code.ResourceExhausted };
    await expect(followed(suite, 1, impatient(3))).rejects.toMatchObject(refused);
    await expect(turn(suite, impatient(3))).rejects.toMatchObject(refused);
    await expect(startTurn(suite.client, ask, impatient(3))).rejects.toMatchObject(refused);
  });

  test("is kept by a session that is being read", async () => {
    const suite = new FakeSuite();
    suite.trees.push(limited(0));
    const feed = new WatchFeed(suite.client);
    const store = new SessionStore({ client: suite.client, feed, sessionId });
    await store.open();
    expect([store.status, store.view.seq]).toEqual(["live", stored().seq]);
    store.close();
  });

  test("loses a feed neither its sessions nor its list", async () => {
    const suite = new FakeSuite();
    const begins = create(ChatEventSchema, { event: { case: "heartbeat", value: {} } });
    suite.watches.push([[begins, ...durable().slice(0, 1)], cut], [[], limited()], [[], limited()]);
    suite.watches.push([[begins, ...durable().slice(1, 2)], "silence"]);
    const { backoff, pauses } = impatient();
    const feed = new WatchFeed(suite.client, backoff);
    const heard: string[] = [];
    feed.onSessionList({ event: () => undefined, listening: () => heard.push("listening") });
    feed.subscribe(sessionId, 0n, {
      event: (event) => heard.push(String(event.seq)),
      reset: () => heard.push("reset"),
      failed: () => heard.push("failed"),
    });
    await expect.poll(() => heard).toEqual(["listening", "1", "listening", "2"]);
    expect(pauses.slice(1)).toEqual([3_200, 3_400]);
    feed.close();
  });
});
