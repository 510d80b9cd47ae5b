import { type DescMessage, equals, toJson } from "@bufbuild/protobuf";

import { EntrySchema } from "./gen/netaclaw/session/v1/entry_pb.js";
import type { SessionView } from "./view.js";

/**
 * What differs between two views, for people; empty when they are equal.
 *
 * Compares seq, leaf, and every entry with its place, projections included; not what is still being written.
 */
export function differences(a: SessionView, b: SessionView): string[] {
  const found: string[] = [];
  if (a.sessionId !== b.sessionId) found.push(`sessionId: ${a.sessionId} != ${b.sessionId}`);
  if (a.seq !== b.seq) found.push(`seq: ${a.seq} != ${b.seq}`);
  if (a.leafEntryId !== b.leafEntryId) found.push(`leafEntryId: ${a.leafEntryId} != ${b.leafEntryId}`);
  const [inA, inB] = [[...a.entries.keys()], [...b.entries.keys()]];
  for (const id of inA) if (!b.entries.has(id)) found.push(`entries[${id}]: only in the first`);
  for (const id of inB) if (!a.entries.has(id)) found.push(`entries[${id}]: only in the second`);
  const common = inA.filter((id) => b.entries.has(id));
  if (common.join() !== inB.filter((id) => a.entries.has(id)).join()) found.push("entries: not in the same order");
  for (const id of common) {
    const [one, other] = [a.entries.get(id), b.entries.get(id)];
    if (one && other && !equals(EntrySchema, one, other)) {
      found.push(`entries[${id}]: ${shown(EntrySchema, one)} != ${shown(EntrySchema, other)}`);
    }
  }
  return found;
}

function shown<T extends DescMessage>(schema: T, message: Parameters<typeof toJson<T>>[1]): string {
  return JSON.stringify(toJson(schema, message));
}
