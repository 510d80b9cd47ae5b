/** A message that is sent while a turn runs, as far as the page knows. */
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ChatEventSchema, ReceiptState } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import { EntryKind } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import { GetSessionTreeResponseSchema } from "@netaclaw/client/gen/netaclaw/session/v1/session_service_pb";
import { createPinia, setActivePinia } from "pinia";
import { beforeEach, expect, it, vi } from "vitest";

import { useChat } from "../src/stores/chat";

type Body = NonNullable<MessageInitShape<typeof ChatEventSchema>["event"]>;

/** How the suite's stream begins for a message. */
let answer: (requestId: string) => { turnId: string; event: Body };

vi.mock("../src/connection", () => ({
  client: {
    sessions: {
      getSessionTree: async () =>
        create(GetSessionTreeResponseSchema, { session: { sessionId: "s", seq: 3n, runningTurnId: "theirs" } }),
    },
    chat: {
      async *chat({ requestId }: { requestId: string }) {
        yield { events: [create(ChatEventSchema, { sessionId: "s", seq: 5n, ...answer(requestId) })] };
      },
    },
  },
  feed: { subscribe: () => () => undefined }, // the page hears of nothing
}));

beforeEach(() => setActivePinia(createPinia()));

async function sent() {
  const chat = useChat();
  await chat.show("s");
  expect(chat.running).toBe(true);
  expect(await chat.send("and then")).toBe(true);
  return chat.waiting.map(({ text }) => text);
}

it("waits when its receipt says so", async () => {
  answer = (requestId) => ({
    turnId: "theirs",
    event: { case: "messageReceipt", value: { requestId, state: ReceiptState.QUEUED } },
  });
  expect(await sent()).toEqual(["and then"]);
});

it("does not wait when the turn had ended before the page heard of it", async () => {
  answer = () => ({
    turnId: "own",
    event: { case: "sessionEntryAdded", value: { entry: { kind: EntryKind.USER } } },
  });
  expect(await sent()).toEqual([]);
});
