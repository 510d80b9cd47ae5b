/** Real conversations as they were recorded: their events as they came, and the tree afterwards. */
import { readFileSync } from "node:fs";

import { fromJson } from "@bufbuild/protobuf";
import { SessionView } from "@netaclaw/client";
import { type ChatEvent, ChatEventSchema } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import { GetSessionTreeResponseSchema } from "@netaclaw/client/gen/netaclaw/session/v1/session_service_pb";

export interface Recording {
  readonly name: string;
  readonly events: () => ChatEvent[];
  readonly stored: () => SessionView;
}

function read(name: string): Recording {
  const data = JSON.parse(readFileSync(`../tests/cases/recorded-${name}.json`, "utf8"));
  return {
    name,
    events: () => data.events.map((event: unknown) => fromJson(ChatEventSchema, event as never)),
    stored: () => SessionView.fromTree([fromJson(GetSessionTreeResponseSchema, data.tree)]),
  };
}

/** A delegated turn alone; and a conversation with questions, approvals, a plan, steering, queue, summary, branches. */
export const turn = read("turn");
export const conversation = read("conversation");

/** Numbers from 0 to 1 that a seed fixes. */
export function random(seed: number): () => number {
  let state = seed;
  return () => (state = (state * 16807) % 2147483647) / 2147483647;
}
