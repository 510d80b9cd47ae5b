/** A real delegated turn, as it was recorded: its events as they came, and the tree afterwards. */
import { readFileSync } from "node:fs";

import { fromJson } from "@bufbuild/protobuf";
import { SessionView } from "@netaclaw/client";
import { type ChatEvent, ChatEventSchema } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import { GetSessionTreeResponseSchema } from "@netaclaw/client/gen/netaclaw/session/v1/session_service_pb";

const data = JSON.parse(readFileSync("../tests/cases/recorded-turn.json", "utf8"));

export const tree = fromJson(GetSessionTreeResponseSchema, data.tree);

export const events = (): ChatEvent[] => data.events.map((event: unknown) => fromJson(ChatEventSchema, event as never));

export const stored = (): SessionView => SessionView.fromTree([tree]);

/** Numbers from 0 to 1 that a seed fixes. */
export function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 16807) % 2147483647) / 2147483647;
}
