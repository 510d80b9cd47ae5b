/** A tab that was open while the suite was upgraded, or that is offline. */
import { createPinia } from "pinia";
import { afterEach, expect, it, vi } from "vitest";
import { createMemoryHistory, createRouter } from "vue-router";

import { tellWhatIsMissing } from "../src/outdated";
import { useNotices } from "../src/stores/notices";

afterEach(() => vi.unstubAllGlobals());

/** What is told of a page whose part is missing, when its own script is answered so. */
async function told(status: number | "nothing"): Promise<(string | number)[]> {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (script: string) => {
    asked.push(script);
    if (status === "nothing") throw new TypeError("Failed to fetch");
    return { status };
  });
  const missing = () => {
    dispatchEvent(new Event("vite:preloadError"));
    throw new TypeError("Failed to fetch dynamically imported module");
  };
  const routes = [
    { path: "/", component: {} },
    { path: "/agents", component: async () => missing() },
  ];
  const router = createRouter({ history: createMemoryHistory(), routes });
  const notices = useNotices(createPinia());
  tellWhatIsMissing("/assets/index-1.js", router, notices);
  await router.push("/");
  for (let clicks = 0; clicks < 2; clicks += 1) await expect(router.push("/agents")).rejects.toThrow();
  await expect.poll(() => asked.length).toBeGreaterThan(2);
  await new Promise((resolve) => setTimeout(resolve)); // what was asked is answered
  return notices.notices.map(({ reason, code }) => reason || code);
}

it("says once that it is older than the suite", async () => {
  expect(await told(404)).toEqual(["PAGE_OUTDATED"]);
});

it("says that the suite cannot be reached, for every click", async () => {
  expect(await told("nothing")).toEqual([14, 14]);
});

it("says the same of a part that is only lost on its way", async () => {
  expect(await told(200)).toEqual([14, 14]);
});
