/** How full a model's window is: what the suite reported live, and after a reload what the path itself says. */
import type { TokenUpdate } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import type { Entry } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";

import { store, stored } from "./storage";

export interface Context {
  /** Tokens; 0: not known. */
  readonly used: number;
  /** Tokens; 0: not known. */
  readonly window: number;
}

/** The model that answered last on a path; empty when none did. */
export function modelOf(path: readonly Entry[]): string {
  for (const { body } of [...path].reverse())
    if (body.case === "assistant" && body.value.model) return body.value.model;
  return "";
}

/** Tokens of the context after the path's last model call or compaction. */
export function usedOn(path: readonly Entry[]): number {
  for (let at = path.length - 1; at >= 0; at--) {
    const body = path[at]?.body;
    if (body?.case === "compaction") return body.value.tokensAfter;
    const usage = body?.case === "assistant" ? body.value.usage : undefined;
    if (usage?.inputTokens) return Number(usage.inputTokens + usage.outputTokens);
  }
  return 0;
}

/** The context as it stands. A window is reported only while a turn runs, so this browser remembers it per model. */
export function contextOf(path: readonly Entry[], live: TokenUpdate | undefined): Context {
  const model = modelOf(path);
  const reported = Number(live?.contextWindow ?? 0n);
  if (reported && model && stored(`window-${model}`) !== String(reported)) store(`window-${model}`, String(reported));
  const used = Number(live?.contextUsed ?? 0n) || usedOn(path);
  return { used, window: reported || (model ? Number(stored(`window-${model}`)) : 0) || 0 };
}
