/** The form of an agent, while a save is on its way. */
import { create } from "@bufbuild/protobuf";
import { type Agent, AgentSchema } from "@netaclaw/client/gen/netaclaw/agent/v1/agent_pb";
import { createPinia } from "pinia";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type App, createApp, h, nextTick } from "vue";
import { createMemoryHistory, createRouter } from "vue-router";

import { i18n } from "../src/i18n";
import AgentsView from "../src/views/AgentsView.vue";

const suite = vi.hoisted(() => ({
  stored: new Map<string, Agent>(),
  /** Calls that wait to be answered. */
  saves: [] as { agent: Partial<Agent>; answer(): void }[],
  pages: [] as string[],
}));

vi.mock("../src/connection", () => {
  const saved = (agent: Partial<Agent>) =>
    new Promise<void>((resolve) => suite.saves.push({ agent: { ...agent }, answer: resolve }));
  return {
    client: {
      agents: {
        listAgents: async ({ pageToken = "" }) => {
          suite.pages.push(pageToken);
          const all = [...suite.stored.values()];
          return pageToken ? { agents: all.slice(1) } : { agents: all.slice(0, 1), nextPageToken: "more" };
        },
        listAgentOptions: async () => ({ options: [] }),
        getAgent: async ({ agentId }: { agentId: string }) => ({ agent: suite.stored.get(agentId) }),
        updateAgent: async ({ agent }: { agent: Partial<Agent> & { agentId: string } }) => {
          await saved(agent);
          const before = suite.stored.get(agent.agentId)!;
          const { agentId, name = "", systemPrompt = "" } = agent;
          suite.stored.set(agentId, create(AgentSchema, { agentId, name, systemPrompt, etag: `${before.etag}'` }));
        },
      },
      tools: { getToolProfile: async () => ({}) },
      models: { listModels: async () => ({ models: [] }) },
    },
  };
});
vi.mock("../src/components/ModelPicker.vue", () => ({ default: { render: () => null } }));

let app: App | undefined;

beforeEach(() => {
  suite.saves.length = suite.pages.length = 0;
  const agents = ["a", "b"].map((agentId) => create(AgentSchema, { agentId, name: `agent ${agentId}`, etag: "1" }));
  suite.stored = new Map(agents.map((agent) => [agent.agentId, agent]));
});
afterEach(() => app?.unmount());

async function opened(agentId: string) {
  const routes = [{ path: "/agents/:agentId?", name: "agents", component: AgentsView, props: true }];
  const router = createRouter({ history: createMemoryHistory(), routes });
  await router.push(`/agents/${agentId}`);
  const host = document.createElement("div");
  const { RouterView } = await import("vue-router");
  app = createApp({ render: () => h(RouterView) })
    .use(createPinia())
    .use(i18n)
    .use(router);
  app.mount(host);
  await expect.poll(() => host.querySelector<HTMLInputElement>("form input")?.value).toBe(`agent ${agentId}`);
  return {
    host,
    router,
    prompt: () => host.querySelector("textarea")!,
    async write(words: string) {
      host.querySelector("textarea")!.value = words;
      host.querySelector("textarea")!.dispatchEvent(new Event("input"));
      await nextTick();
    },
    save: () => host.querySelector("form")!.dispatchEvent(new Event("submit")),
  };
}

it("saves once, however often the button is pressed", async () => {
  const { write, save } = await opened("a");
  await write("be kind");
  save();
  save();
  await expect.poll(() => suite.saves.length).toBe(1);
  suite.saves[0]!.answer();
  await expect.poll(() => suite.pages.length).toBeGreaterThan(2);
  expect(suite.saves.length).toBe(1);
});

it("keeps what was written while a save was on its way", async () => {
  const { host, write, save, prompt } = await opened("a");
  await write("be kind");
  save();
  await expect.poll(() => suite.saves.length).toBe(1);
  await write("be kind, and brief");
  suite.saves[0]!.answer();
  await expect.poll(() => suite.pages.length).toBeGreaterThan(2);
  expect(prompt().value).toBe("be kind, and brief");
  save();
  await expect.poll(() => suite.saves.length).toBe(2);
  suite.saves[1]!.answer();
  await expect.poll(() => suite.stored.get("a")?.systemPrompt).toBe("be kind, and brief");
  await expect.poll(() => host.querySelector<HTMLButtonElement>(".bar .primary")?.disabled).toBe(true);
});

it("lists the agents of all pages", async () => {
  const { host } = await opened("a");
  await expect.poll(() => host.querySelectorAll("[data-agent]").length).toBe(2);
});
