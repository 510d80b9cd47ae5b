/** A real delegated turn, as it was recorded: what came, and what the tree held afterwards. */
import { readFileSync } from "node:fs";

import { fromJson } from "@bufbuild/protobuf";

import { ChatEventSchema, type ChatEvent } from "../src/gen/netaclaw/chat/v1/event_pb.js";
import { GetSessionTreeResponseSchema } from "../src/gen/netaclaw/session/v1/session_service_pb.js";
import { SessionView } from "../src/view.js";

const file = new URL("../../../tests/cases/recorded-turn.json", import.meta.url);
const data = JSON.parse(readFileSync(file, "utf8"));

export const tree = fromJson(GetSessionTreeResponseSchema, data.tree);
export const sessionId = tree.session?.sessionId ?? "";

/** Fresh copies of the events. */
export function events(): ChatEvent[] {
  return data.events.map((event: unknown) => fromJson(ChatEventSchema, event as never));
}

export function stored(): SessionView {
  return SessionView.fromTree([tree]);
}

/** A generator of numbers from 0 to 1 that a seed fixes. */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
