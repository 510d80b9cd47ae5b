/** A tab and the shared worker on the two ends of a channel: what becomes of one when the other is gone. */
import { create } from "@bufbuild/protobuf";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";

import type { Feed, FeedListener } from "../src/feed.js";
import { type ChatEvent, ChatEventSchema } from "../src/gen/netaclaw/chat/v1/event_pb.js";
import { sharedFeed } from "../src/shared/index.js";
import { ALIVE_EVERY_MS, GONE_AFTER_MS } from "../src/shared/messages.js";
import { FakeSuite } from "./fake-suite.js";
import { events, sessionId } from "./recorded.js";

const suite = vi.hoisted(() => ({ client: undefined as unknown }));
vi.mock("../src/browser.js", () => ({ connectBrowser: () => suite.client }));

type OnConnect = (event: { ports: MessagePort[] }) => void;

/** Workers as a browser has them: one, until it dies. */
class Browser {
  started = 0;
  /** Whether a worker's script can be had. */
  reachable = true;
  private ports: MessagePort[] = [];
  private current: OnConnect | undefined;

  constructor(private readonly scripts: OnConnect[]) {}

  /** What a page's `new SharedWorker()` gives. */
  readonly connect = (): SharedWorker => {
    const { port1, port2 } = new MessageChannel();
    if (!this.current && this.reachable) {
      this.current = this.scripts.shift()!;
      this.started += 1;
    }
    this.ports.push(port2);
    this.current?.({ ports: [port2] });
    return { port: port1 } as unknown as SharedWorker;
  };

  /** The worker's process is gone; nobody is told. */
  kill(): void {
    for (const port of this.ports) {
      port.onmessage = null;
      port.postMessage = () => undefined;
    }
    this.ports = [];
    this.current = undefined;
  }
}

/** The worker's script, run anew. */
async function script(): Promise<OnConnect> {
  vi.resetModules();
  await import("../src/shared/worker.js");
  return (globalThis as unknown as { onconnect: OnConnect }).onconnect;
}

class Reader implements FeedListener {
  readonly heard: (number | string)[] = [];
  event(event: ChatEvent): void {
    if (event.seq) this.heard.push(Number(event.seq));
  }
  reset(): void {
    this.heard.push("reset");
  }
  failed(): void {
    this.heard.push("failed");
  }
}

const durable = () => events().filter((event) => event.seq);
const begins = create(ChatEventSchema, { event: { case: "heartbeat", value: {} } });

/** Messages cross a channel in a turn of the real loop. */
const crossed = () => new Promise((resolve) => setImmediate(resolve));
async function pass(milliseconds: number): Promise<void> {
  for (let left = milliseconds; left > 0; left -= ALIVE_EVERY_MS / 2) {
    await vi.advanceTimersByTimeAsync(Math.min(left, ALIVE_EVERY_MS / 2));
    for (let n = 0; n < 5; n += 1) await crossed();
  }
}

let fake: FakeSuite;
let browser: Browser;

beforeEach(async () => {
  const scripts = [await script(), await script(), await script()];
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  vi.stubGlobal("SharedWorker", class {});
  vi.stubGlobal("navigator", {});
  fake = new FakeSuite();
  suite.client = fake.client;
  browser = new Browser(scripts);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("a tab of a shared feed", () => {
  let feed: Feed;
  let reader: Reader;

  /** A tab that has heard of the first two events. */
  async function tab(): Promise<void> {
    fake.watches.push([durable().slice(0, 2), "silence"]);
    feed = sharedFeed({ baseUrl: "http://suite", worker: browser.connect });
    reader = new Reader();
    feed.subscribe(sessionId, 0n, reader);
    await expect.poll(() => reader.heard).toEqual([1, 2]);
  }
  /** The worker is gone, with its stream; what is asked of the suite from now on is answered so. */
  function died(rest: ChatEvent[]): void {
    browser.kill();
    suite.client = (fake = new FakeSuite()).client;
    for (let n = 0; n < 3; n += 1) fake.watches.push([[begins, ...rest], "silence"]); // made again for each listener
  }
  afterEach(() => feed.close());

  test("goes on with another worker when its own has died", async () => {
    await tab();
    fake.watches.push([[begins, ...durable().slice(2, 4)], "silence"]);
    const listening = vi.fn();
    feed.onSessionList({ event: () => undefined, listening });
    await expect.poll(() => listening.mock.calls.length).toBe(1);
    expect(reader.heard).toEqual([1, 2, 3, 4]);
    died(durable().slice(4, 5));
    await pass(3 * ALIVE_EVERY_MS);
    await expect.poll(() => [browser.started, reader.heard]).toEqual([2, [1, 2, 3, 4, 5]]);
    expect(fake.watchedAfter[0]).toBe(4n);
    await expect.poll(() => listening.mock.calls.length).toBe(2);
  });

  test("has a stream of its own when no worker can be had any more", async () => {
    await tab();
    died(durable().slice(2, 4));
    browser.reachable = false;
    await pass(6 * ALIVE_EVERY_MS);
    await expect.poll(() => [browser.started, reader.heard]).toEqual([1, [1, 2, 3, 4]]);
    const end = feed.subscribe("another", 0n, new Reader());
    await expect.poll(() => fake.watched.at(-1)?.targets.length).toBe(2);
    end();
    await expect.poll(() => fake.watched.at(-1)?.targets.length).toBe(1);
  });

  test("is served again after it was frozen for so long that the worker gave it up", async () => {
    await tab();
    const frozen = vi.spyOn(MessagePort.prototype, "postMessage").mockImplementation(() => undefined);
    await pass(GONE_AFTER_MS + ALIVE_EVERY_MS);
    frozen.mockRestore();
    fake.watches.push([durable().slice(2, 4), "silence"]);
    await pass(3 * ALIVE_EVERY_MS);
    await expect.poll(() => [browser.started, reader.heard]).toEqual([1, [1, 2, 3, 4]]);
  });

  test("keeps its worker while nothing happens", async () => {
    await tab();
    await pass(2 * GONE_AFTER_MS);
    expect([browser.started, fake.open]).toEqual([1, 1]);
    feed.close();
    await expect.poll(() => fake.open).toBe(0);
  });
});
