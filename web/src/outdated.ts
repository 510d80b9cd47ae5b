/** Parts of the page that cannot be loaded: the suite was upgraded meanwhile and serves another page, or is not reachable. */
import { FeedError } from "@netaclaw/client";
import type { Router } from "vue-router";

import type { useNotices } from "./stores/notices";

const UNAVAILABLE = 14;
const FAILED_PRECONDITION = 9;

/** Say so in notices: a click that does nothing tells nobody why. `script` is the address of this page's own script. */
export function tellWhatIsMissing(script: string, router: Router, notices: ReturnType<typeof useNotices>): void {
  let outdated = false;

  async function isOutdated(): Promise<boolean> {
    try {
      return (await fetch(script, { method: "HEAD", cache: "no-store" })).status === 404;
    } catch {
      return false; // nobody answers
    }
  }

  addEventListener("vite:preloadError", async () => {
    if (outdated || !(await isOutdated())) return; // what is only nice to have does without
    if (!outdated) notices.fail(new FeedError("a part of this page is gone", FAILED_PRECONDITION, "PAGE_OUTDATED"));
    outdated = true;
  });
  router.onError(async (error: unknown) => {
    if (!(await isOutdated())) notices.fail(new FeedError(String(error), UNAVAILABLE, ""));
  });
}
