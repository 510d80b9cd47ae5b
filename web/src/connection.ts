/** The page's one client and one feed. All tabs share the feed's stream. */
import { connectBrowser, sharedFeed } from "@netaclaw/client";

import workerUrl from "virtual:feed-worker";

import { store, stored } from "./model/storage";

const apiKey = stored("api-key");
const options = { baseUrl: location.origin, ...(apiKey ? { apiKey } : {}) };

export const client = connectBrowser(options);
export const feed = sharedFeed({
  ...options,
  worker: () => new SharedWorker(workerUrl, { type: "module" }),
});

/** Everything begins again with another key. */
export function useApiKey(key: string): void {
  store("api-key", key.trim());
  location.reload();
}
