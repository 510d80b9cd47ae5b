/** Messages that are sent in a hurry: twice, one after the other, and just before the reader goes elsewhere. */
import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "../../clients/typescript/node_modules/@connectrpc/connect";
import { WhenBusy, type ChatRequest } from "@netaclaw/client/gen/netaclaw/chat/v1/chat_service_pb";
import { type ChatEvent, ChatEventSchema } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import { EntryKind, EntrySchema } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import { GetSessionTreeResponseSchema } from "@netaclaw/client/gen/netaclaw/session/v1/session_service_pb";
import { createPinia, type Pinia } from "pinia";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type App, type Component, createApp, h, nextTick, reactive } from "vue";

import MessageComposer from "../src/components/MessageComposer.vue";
import UserMessage from "../src/components/UserMessage.vue";
import { i18n } from "../src/i18n";
import { useChat } from "../src/stores/chat";
import { useNotices } from "../src/stores/notices";

interface Asked {
  readonly request: ChatRequest;
  readonly aborted: () => boolean;
  answer(turnId?: string): void;
  refuse(error: ConnectError): void;
}

const suite = vi.hoisted(() => ({
  asked: [] as unknown[],
  cancelled: [] as { sessionId: string; turnId?: string }[],
  tell: (_: unknown) => undefined as void,
}));
const asked = suite.asked as Asked[];

vi.mock("../src/connection", () => ({
  client: {
    sessions: {
      getSessionTree: async ({ sessionId }: { sessionId: string }) =>
        create(GetSessionTreeResponseSchema, { session: { sessionId, seq: 0n } }),
    },
    chat: {
      cancelTurn: async (request: { sessionId: string; turnId?: string }) => void suite.cancelled.push(request),
      async *chat(request: ChatRequest, { signal }: { signal: AbortSignal }) {
        const turnId = await new Promise<string>((answer, refuse) => {
          const aborted = () => refuse(new ConnectError("left", Code.Canceled));
          signal.addEventListener("abort", aborted);
          suite.asked.push({ request, aborted: () => signal.aborted, answer: (id = "t") => answer(id), refuse });
        });
        yield { events: [userEntry(request.sessionId, request.content, turnId)] };
      },
    },
  },
  feed: {
    subscribe: (_: string, __: bigint, listener: { event(event: unknown): void }) => {
      suite.tell = (event) => listener.event(event);
      return () => undefined;
    },
  },
}));
vi.mock("../src/components/ContextMeter.vue", () => ({ default: { render: () => null } }));

const userEntry = (sessionId: string, text: string, turnId: string, seq = 1n): ChatEvent =>
  create(ChatEventSchema, {
    ...{ sessionId, turnId, seq },
    event: {
      case: "sessionEntryAdded",
      value: { entry: { entryId: `e${seq}`, kind: EntryKind.USER, body: { case: "user", value: { text } } } },
    },
  });

let pinia: Pinia;
let shown: App[] = [];

beforeEach(() => {
  localStorage.clear();
  asked.length = suite.cancelled.length = 0;
  pinia = createPinia();
});
afterEach(() => {
  for (const app of shown) app.unmount();
  shown = [];
});

/** Mount a component; its props may be changed. */
function mounted(component: Component, props: Record<string, unknown>): { host: HTMLElement; app: App } {
  const host = document.createElement("div");
  const app = createApp({ render: () => h(component, props) });
  shown.push(app);
  app.use(pinia).use(i18n).mount(host);
  return { host, app };
}

async function composer(sessionId = "a") {
  const chat = useChat(pinia);
  await chat.show(sessionId);
  const props = reactive({ sessionId, start: async () => false });
  const { host, app } = mounted(MessageComposer, props);
  const field = host.querySelector("textarea")!;
  return {
    ...{ chat, field, app },
    async send(text: string) {
      field.value = text;
      field.dispatchEvent(new Event("input"));
      await nextTick();
      field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
      host.querySelector("form")!.dispatchEvent(new Event("submit"));
      await nextTick();
    },
    async go(id: string) {
      await chat.show(id);
      props.sessionId = id;
      await nextTick();
    },
  };
}

const refused = new ConnectError("no", Code.ResourceExhausted);
const settled = () => new Promise((resolve) => setTimeout(resolve)); // what was answered has been taken in

it("sends once for Enter and a click", async () => {
  const { send, field } = await composer();
  await send("once");
  await expect.poll(() => asked.length).toBe(1);
  asked[0]!.answer();
  await settled();
  expect([asked.length, field.value]).toEqual([1, ""]);
});

it("goes on with sending when the reader looks at another session", async () => {
  const { send, go, field } = await composer();
  await send("for a");
  await expect.poll(() => asked.length).toBe(1);
  await go("b");
  await settled();
  expect([asked[0]!.aborted(), field.value, useNotices(pinia).notices]).toEqual([false, "", []]);
  asked[0]!.answer();
});

it("gives a refused message back to its own session, not to the one that is shown by then", async () => {
  const { send, go, field } = await composer();
  await send("for a");
  await expect.poll(() => asked.length).toBe(1);
  await go("b");
  asked[0]!.refuse(refused);
  await expect.poll(() => useNotices(pinia).notices.length).toBe(1);
  expect(field.value).toBe("");
  await go("a");
  expect(field.value).toBe("for a");
});

it("keeps a refused message when the composer has gone", async () => {
  const { send, app, chat } = await composer();
  await send("for a");
  await expect.poll(() => asked.length).toBe(1);
  app.unmount();
  chat.leave();
  asked[0]!.refuse(refused);
  await expect.poll(() => useNotices(pinia).notices.length).toBe(1);
  expect((await composer()).field.value).toBe("for a");
});

it("lets a message wait that is sent while the one before is on its way", async () => {
  const { send, chat } = await composer();
  await send("first");
  await send("second");
  await expect.poll(() => asked.length).toBe(1);
  expect(chat.waiting.map(({ text }) => text)).toEqual(["second"]);
  asked[0]!.answer();
  await expect.poll(() => asked.length).toBe(2);
  expect(asked.map(({ request }) => [request.content, request.whenBusy])).toEqual([
    ["first", WhenBusy.REJECT],
    ["second", WhenBusy.ENQUEUE],
  ]);
  asked[1]!.answer("t2");
  await expect.poll(() => chat.waiting).toEqual([]);
});

it("sends an edited message once, however often the button is pressed", async () => {
  const chat = useChat(pinia);
  await chat.show("a");
  const body = { case: "user" as const, value: { text: "before" } };
  const entry = create(EntrySchema, { entryId: "u", parentEntryId: "p", kind: EntryKind.USER, body });
  const { host } = mounted(UserMessage, { entry });
  host.querySelector<HTMLElement>("[data-edit]")!.click();
  await nextTick();
  const form = host.querySelector("form")!;
  form.dispatchEvent(new Event("submit"));
  form.dispatchEvent(new Event("submit"));
  await expect.poll(() => asked.length).toBe(1);
  asked[0]!.answer();
  await settled();
  expect(asked.map(({ request }) => request.leafEntryId)).toEqual(["p"]);
  void chat.again(entry);
  void chat.again(entry);
  await expect.poll(() => asked.length).toBe(2);
  asked[1]!.answer();
  await settled();
  expect(asked.length).toBe(2);
});

const lost = new ConnectError("the answer was lost", Code.DeadlineExceeded);

it("asks under the same id when nobody knows whether a message arrived", async () => {
  const { send, field } = await composer();
  await send("perhaps");
  await expect.poll(() => asked.length).toBe(1);
  asked[0]!.refuse(lost);
  await expect.poll(() => field.value).toBe("perhaps");
  await send("perhaps");
  await expect.poll(() => asked.length).toBe(2);
  expect(asked[1]!.request.requestId).toBe(asked[0]!.request.requestId);
  asked[1]!.answer();
  await settled();
  await send("perhaps");
  await expect.poll(() => asked.length).toBe(3);
  expect(asked[2]!.request.requestId).not.toBe(asked[0]!.request.requestId);
  asked[2]!.answer();
});

it("asks under another id once the message was seen to have arrived, and for other words", async () => {
  const { send, field } = await composer();
  await send("perhaps");
  await expect.poll(() => asked.length).toBe(1);
  asked[0]!.refuse(lost);
  await expect.poll(() => field.value).toBe("perhaps");
  suite.tell(userEntry("a", "perhaps", "t"));
  suite.tell(create(ChatEventSchema, { sessionId: "a", turnId: "t", seq: 2n, event: { case: "done", value: {} } }));
  await send("perhaps");
  await expect.poll(() => asked.length).toBe(2);
  asked[1]!.refuse(lost);
  await expect.poll(() => field.value).toBe("perhaps");
  await send("other words");
  await expect.poll(() => asked.length).toBe(3);
  expect(new Set(asked.map(({ request }) => request.requestId)).size).toBe(3);
  asked[2]!.answer();
});

it("stops the turn that is shown, not the one that may have followed it", async () => {
  const { chat } = await composer();
  suite.tell(userEntry("a", "work", "t1"));
  await chat.stop();
  expect(suite.cancelled).toEqual([{ sessionId: "a", turnId: "t1" }]);
});
