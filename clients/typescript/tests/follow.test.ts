import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { describe, expect, test } from "vitest";

import { differences } from "../src/comparison.js";
import { Gap } from "../src/errors.js";
import { follow, type FollowOptions, runTurn, startTurn } from "../src/follow.js";
import { ErrorInfoSchema } from "../src/gen/google/rpc/error_details_pb.js";
import { type ChatEvent, ChatEventSchema, ReceiptState } from "../src/gen/netaclaw/chat/v1/event_pb.js";
import { EntryKind } from "../src/gen/netaclaw/session/v1/entry_pb.js";
import { SessionView } from "../src/view.js";
import { cut, FakeSuite, impatient } from "./fake-suite.js";
import { events, sessionId, stored } from "./recorded.js";

const durable = () => events().filter((event) => event.seq);
const LAST = durable().length;
const heartbeat = (seq: number) =>
  create(ChatEventSchema, { sessionId, event: { case: "heartbeat", value: { seq: BigInt(seq) } } });

/** Durable seqs that follow() gives until one is `until`. */
async function followed(suite: FakeSuite, until: number, options: FollowOptions = {}, after = 0n): Promise<number[]> {
  const got: number[] = [];
  const { backoff } = impatient(5);
  for await (const event of follow(suite.client, sessionId, after, { backoff, ...options })) {
    if (event.seq) got.push(Number(event.seq));
    if (Number(event.seq) === until) break;
  }
  return got;
}

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, n) => n + first);

describe("follow", () => {
  test("loses and repeats nothing when it is cut at every event", async () => {
    const suite = new FakeSuite();
    for (const event of durable()) suite.watches.push([[event], cut]);
    expect(await followed(suite, LAST)).toEqual(upTo(LAST));
    expect(suite.watchedAfter).toEqual(upTo(LAST).map((seq) => BigInt(seq - 1)));
  });

  test("ignores what was applied when it comes again", async () => {
    const suite = new FakeSuite();
    suite.watches.push([durable().slice(0, 5), cut], [durable().slice(2, 9), undefined]);
    expect(await followed(suite, 9)).toEqual(upTo(9));
  });

  test("watches again from the last event after a gap", async () => {
    const suite = new FakeSuite();
    const all = durable();
    suite.watches.push([[...all.slice(0, 3), all[5]!], undefined], [all.slice(3, 6), undefined]);
    expect(await followed(suite, 6)).toEqual(upTo(6));
    expect(suite.watchedAfter).toEqual([0n, 3n]);
  });

  test("takes a heartbeat that knows more for a gap", async () => {
    const suite = new FakeSuite();
    const all = durable();
    suite.watches.push([[...all.slice(0, 2), heartbeat(2), heartbeat(4)], undefined], [all.slice(2, 4), undefined]);
    expect(await followed(suite, 4)).toEqual(upTo(4));
    expect(suite.watchedAfter).toEqual([0n, 2n]);
  });

  test("reads the tree when events are gone", async () => {
    const suite = new FakeSuite();
    suite.watches.push([[], new ConnectError("gone", Code.OutOfRange)], [[heartbeat(LAST)], "silence"]);
    const snapshots: SessionView[] = [];
    const leaving = new AbortController();
    const options = { snapshot: (view: SessionView) => snapshots.push(view), signal: leaving.signal };
    for await (const event of follow(suite.client, sessionId, 3n, { ...options, ...impatient() })) {
      expect(event.event.case).toBe("heartbeat");
      leaving.abort();
    }
    expect(suite.watchedAfter).toEqual([3n, BigInt(LAST)]);
    expect(differences(snapshots[0]!, stored())).toEqual([]);
  });

  test.each([Code.NotFound, Code.Unauthenticated, Code.OutOfRange])("throws an answer (%i)", async (code) => {
    const suite = new FakeSuite();
    suite.watches.push([[], new ConnectError("no", code)]);
    await expect(followed(suite, 1)).rejects.toMatchObject({ code });
    expect(suite.watched).toHaveLength(1);
  });

  test("tells an internal error of the road from one of a service", async () => {
    const suite = new FakeSuite();
    const detail = { desc: ErrorInfoSchema, value: { domain: "netaclaw", reason: "INTERNAL" } };
    suite.watches.push(
      [[], new ConnectError("proxy", Code.Internal)],
      [durable().slice(0, 1), new ConnectError("ours", Code.Internal, undefined, [detail])],
    );
    await expect(followed(suite, LAST)).rejects.toMatchObject({ rawMessage: "ours" });
  });

  test("makes longer pauses until there is progress", async () => {
    const suite = new FakeSuite();
    const { backoff, pauses } = impatient();
    const all = durable();
    suite.watches.push([[], cut], [[], cut], [[], cut], [all.slice(0, 1), cut], [all.slice(1, 2), undefined]);
    await followed(suite, 2, { backoff });
    expect(pauses).toEqual([100, 200, 400, 100]);
  });

  test("gives up after so many tries without progress when it is asked to", async () => {
    const suite = new FakeSuite();
    for (let n = 0; n < 9; n += 1) suite.watches.push([[], cut]);
    await expect(followed(suite, 1)).rejects.toMatchObject({ code: Code.Unavailable });
    expect(suite.watched).toHaveLength(6);
    const gaps = new FakeSuite();
    for (let n = 0; n < 9; n += 1) gaps.watches.push([durable().slice(4, 5), undefined]);
    await expect(followed(gaps, 1)).rejects.toBeInstanceOf(Gap);
  });

  test("gives its stream back when the reader leaves, and ends without an error when it is told to", async () => {
    const suite = new FakeSuite();
    suite.watches.push([durable().slice(0, 2), "silence"], [durable().slice(0, 2), "silence"]);
    await followed(suite, 2);
    await expect.poll(() => suite.open).toBe(0);
    const leaving = new AbortController();
    for await (const event of follow(suite.client, sessionId, 0n, { signal: leaving.signal })) {
      if (event.seq === 2n) leaving.abort();
    }
    await expect.poll(() => suite.open).toBe(0);
  });
});

const ask = { sessionId, content: "count them" };

async function turn(suite: FakeSuite): Promise<ChatEvent[]> {
  const got: ChatEvent[] = [];
  for await (const event of runTurn(suite.client, ask, 0n, { backoff: impatient(5).backoff })) got.push(event);
  return got;
}

describe("runTurn", () => {
  test("ends with the turn's last event", async () => {
    const suite = new FakeSuite();
    suite.chats.push([events(), undefined]);
    expect(await turn(suite)).toEqual(events());
    expect(suite.watched).toEqual([]);
  });

  test.each(upTo(events().length - 1))("follows a turn that is cut after %i events to its end", async (place) => {
    const suite = new FakeSuite();
    const all = events();
    suite.chats.push([all.slice(0, place), cut]);
    const rest = all.slice(Math.max(0, place - 2));
    suite.chats.push([all, undefined]); // asked again only when nothing named the turn before the cut
    suite.watches.push([rest.slice(0, 3), cut], [all, undefined]);
    const view = new SessionView();
    for (const event of await turn(suite)) view.apply(event);
    expect(differences(view, stored())).toEqual([]);
  });

  test("sends a message that was not acknowledged again under one request id", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[], cut], [events(), undefined]);
    expect(await turn(suite)).toHaveLength(events().length);
    expect(suite.asked[0]?.requestId).toBeTruthy();
    expect(suite.asked[0]).toEqual(suite.asked[1]);
  });

  test("throws a refusal", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[], new ConnectError("busy", Code.FailedPrecondition)]);
    await expect(turn(suite)).rejects.toMatchObject({ code: Code.FailedPrecondition });
  });
});

const waitingRequest = { sessionId, content: "and then", requestId: "mine" };
type Body = NonNullable<MessageInitShape<typeof ChatEventSchema>["event"]>;
const at = (seq: number, turnId: string, event: Body) =>
  create(ChatEventSchema, { sessionId, seq: BigInt(seq), turnId, event });
const asked = (seq: number, turnId: string) =>
  at(seq, turnId, { case: "sessionEntryAdded", value: { entry: { kind: EntryKind.USER } } });
const receipt = (seq: number, turnId: string, state: ReceiptState, requestId = "mine") =>
  at(seq, turnId, { case: "messageReceipt", value: { requestId, state } });
const done = (seq: number, turnId: string) => at(seq, turnId, { case: "done", value: {} });

/** A message waits for another's turn, and for that of a message before it. */
const waited = [
  asked(1, "theirs"),
  receipt(2, "theirs", ReceiptState.QUEUED, "before"),
  receipt(3, "theirs", ReceiptState.QUEUED),
  done(4, "theirs"),
  receipt(5, "third", ReceiptState.TAKEN, "before"),
  asked(6, "third"),
  done(7, "third"),
  receipt(8, "own", ReceiptState.TAKEN),
  asked(9, "own"),
  done(10, "own"),
  asked(11, "later"),
];
const queued = waited[2]!;

async function waitingTurn(suite: FakeSuite, after = 0): Promise<number[]> {
  const got: number[] = [];
  const { backoff } = impatient(3);
  for await (const event of runTurn(suite.client, waitingRequest, BigInt(after), { backoff })) {
    got.push(Number(event.seq));
  }
  return got;
}

describe("runTurn in a session that others write to", () => {
  test("follows it to its own turn's end when its first receipt is a gap", async () => {
    const suite = new FakeSuite();
    for (let n = 0; n < 9; n += 1) suite.chats.push([[queued], "silence"]);
    suite.watches.push([waited.slice(0, 6), cut], [waited, "silence"]);
    expect(await waitingTurn(suite)).toEqual(upTo(10));
    expect(suite.asked).toHaveLength(1);
    expect(suite.watchedAfter).toEqual([0n, 6n]);
  });

  test("ends when the message is taken back", async () => {
    const suite = new FakeSuite();
    for (let n = 0; n < 9; n += 1) suite.chats.push([[queued], "silence"]);
    const told = receipt(4, "theirs", ReceiptState.RETRACTED);
    suite.watches.push([[...waited.slice(0, 3), told, done(5, "theirs")], "silence"]);
    expect(await waitingTurn(suite)).toEqual(upTo(4));
  });

  test.each([cut, undefined])("goes on when its stream ends after the receipt (%s)", async (end) => {
    const suite = new FakeSuite();
    suite.chats.push([[queued], end]);
    suite.watches.push([waited, "silence"]);
    expect(await waitingTurn(suite, 2)).toEqual(upTo(10, 3));
    expect(suite.asked).toHaveLength(1);
  });

  test("follows one that begins at once when its entry is a gap", async () => {
    const suite = new FakeSuite();
    suite.chats.push([waited.slice(8, 10), "silence"]);
    suite.watches.push([waited, "silence"]);
    expect(await waitingTurn(suite, 1)).toEqual(upTo(10, 2));
  });

  test("ends at once when the turn had ended before what is known", async () => {
    const suite = new FakeSuite();
    suite.chats.push([waited.slice(7, 10), undefined]); // joined
    expect(await waitingTurn(suite, 10)).toEqual([]);
  });

  test("gives the turn's end when it is a gap", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[...waited.slice(7, 9), done(11, "own")], undefined]);
    suite.watches.push([[asked(10, "later"), done(11, "own")], "silence"]);
    expect(await waitingTurn(suite, 7)).toEqual(upTo(11, 8));
  });

  test("finds its turn when it is sent again after it was taken", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[], cut]); // its receipt was lost with the stream
    for (let n = 0; n < 9; n += 1) suite.chats.push([waited.slice(7, 10), undefined]); // joined
    suite.watches.push([waited, "silence"]);
    expect(await waitingTurn(suite, 1)).toEqual(upTo(10, 2));
    expect(suite.asked.map(({ requestId }) => requestId)).toEqual(["mine", "mine"]);
  });
});

describe("startTurn", () => {
  test("names the turn of a message that waits once its receipt does", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[queued], "silence"], [[waited[7]!], "silence"]);
    expect(await startTurn(suite.client, waitingRequest)).toEqual({ sessionId, turnId: "" });
    expect(await startTurn(suite.client, waitingRequest)).toEqual({ sessionId, turnId: "own" });
  });

  test("returns with the first event and gives the stream back", async () => {
    const suite = new FakeSuite();
    suite.chats.push([[], cut], [events().slice(0, 3), "silence"]);
    const started = await startTurn(suite.client, ask, impatient(5));
    expect(started).toEqual({ sessionId, turnId: events()[0]!.turnId });
    await expect.poll(() => suite.open).toBe(0);
  });
});
