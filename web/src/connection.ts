/** The page's one client and one feed. All tabs share the feed's stream. */
import { connectBrowser, sharedFeed } from "@netaclaw/client";

import { store, stored } from "./model/storage";

const apiKey = stored("api-key");
const options = { baseUrl: location.origin, ...(apiKey ? { apiKey } : {}) };

export const client = connectBrowser(options);
export const feed = sharedFeed({
  ...options,
  worker: () => new SharedWorker(new URL("@netaclaw/client/worker", import.meta.url), { type: "module" }),
});

/** Everything begins again with another key. */
export function useApiKey(key: string): void {
  store("api-key", key.trim());
  location.reload();
}
