/** A long answer, of which the message holds a part only. */
import { createPinia } from "pinia";
import { expect, it, vi } from "vitest";
import { createApp, h } from "vue";

import { ConnectError, Code } from "../../clients/typescript/node_modules/@connectrpc/connect";
import AnswerText from "../src/components/AnswerText.vue";
import { i18n } from "../src/i18n";

const suite = vi.hoisted(() => ({ reads: [] as string[] }));

vi.mock("../src/connection", () => ({ client: {}, feed: {} }));
vi.mock("../src/model/content", () => ({
  readContent: async (_client: unknown, _session: string, contentId: string) => {
    suite.reads.push(contentId);
    if (suite.reads.length === 1) throw new ConnectError("cut", Code.Unavailable);
    return "the whole of it";
  },
}));

it("is shown whole, though the first try to read it was cut", async () => {
  const host = document.createElement("div");
  const stored = { stored: "the whole", contentId: "c", sizeBytes: 15n };
  const app = createApp({ render: () => h(AnswerText, { entryId: "e", streaming: false, ...stored }) });
  app.use(createPinia()).use(i18n).mount(host);
  await expect.poll(() => host.textContent?.split(/\s+/).join(" ").trim()).toBe("the whole of it");
  expect(suite.reads).toEqual(["c", "c"]);
  app.unmount();
});
