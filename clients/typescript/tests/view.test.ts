import { clone } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";

import { differences } from "../src/comparison.js";
import { Gap } from "../src/errors.js";
import { ChatEventSchema } from "../src/gen/netaclaw/chat/v1/event_pb.js";
import { EntryKind } from "../src/gen/netaclaw/session/v1/entry_pb.js";
import { draftKey, SessionView } from "../src/view.js";
import { events, random, stored } from "./recorded.js";

const SEEDS = Array.from({ length: 50 }, (_, n) => n);

function viewOf(given: Iterable<ReturnType<typeof events>[number]>): SessionView {
  const view = new SessionView();
  for (const event of given) view.apply(event);
  return view;
}

describe("a view made of a turn's events", () => {
  test("equals the tree", () => {
    expect(differences(viewOf(events()), stored())).toEqual([]);
  });

  test("equals it when every event comes twice", () => {
    expect(differences(viewOf(events().flatMap((event) => [event, event])), stored())).toEqual([]);
  });

  test.each(SEEDS)("equals it after cuts and replays (seed %i)", (seed) => {
    const [next, all] = [random(seed), events()];
    const view = new SessionView();
    for (let at = 0; at < all.length; at += 1) {
      view.apply(all[at]!);
      if (next() < 0.2) at = Math.max(-1, at - Math.floor(next() * 10)); // watch again from somewhere before
    }
    expect(differences(view, stored())).toEqual([]);
  });

  test.each(SEEDS)("takes shuffled events only in their order (seed %i)", (seed) => {
    const [next, view] = [random(seed), new SessionView()];
    const durable = events().filter((event) => event.seq);
    let gaps = 0;
    while (view.seq < BigInt(durable.length)) {
      const event = durable[Math.floor(next() * durable.length)]!;
      const before = view.seq;
      try {
        expect(view.apply(event)).toBe(event.seq === before + 1n);
      } catch (error) {
        expect(error).toBeInstanceOf(Gap);
        expect(view.seq).toBe(before);
        gaps += 1;
      }
    }
    expect(gaps).toBeGreaterThan(0);
    expect(differences(view, stored())).toEqual([]);
  });

  test("equals the tree when all events are applied to the tree again", () => {
    const view = stored();
    for (const event of events()) expect(view.apply(event)).toBe(event.seq === 0n);
    expect(differences(view, stored())).toEqual([]);
  });

  test("does not change the events that it was given", () => {
    const given = events();
    const before = given.map((event) => clone(ChatEventSchema, event));
    viewOf(given);
    expect(given).toEqual(before);
  });

  test("shows what is being written until the final entry comes", () => {
    const view = new SessionView();
    const seen: string[] = [];
    for (const event of events()) {
      view.apply(event);
      const leaf = view.entries.get(view.leafEntryId);
      if (leaf?.kind === EntryKind.ASSISTANT) seen.push(view.textOf(leaf.entryId));
    }
    const text = view.textOf(view.leafEntryId);
    expect(text.length).toBeGreaterThan(10);
    expect(seen.some((shown) => shown.length > 0 && shown.length < text.length)).toBe(true);
    expect(view.drafts.size).toBe(0);
  });

  test("shows each subagent's text apart while it is written", () => {
    const view = new SessionView();
    const tasks = new Set<string>();
    for (const event of events()) {
      view.apply(event);
      for (const [key, draft] of view.drafts) if (key.includes(" ") && draft.text) tasks.add(key);
    }
    expect(tasks.size).toBe(3);
  });

  test("replaces what changes by new objects, so that frameworks notice", () => {
    const view = new SessionView();
    let changes = 0;
    for (const event of events()) {
      const before = new Map(view.entries);
      view.apply(event);
      if (event.event.case === "subagentEvent") {
        const id = event.event.value.batchEntryId;
        expect(view.entries.get(id)).not.toBe(before.get(id));
        changes += 1;
      }
    }
    expect(changes).toBeGreaterThan(5);
  });

  test("names the path, the cards and what hangs on an answer", () => {
    const view = stored();
    const path = view.path();
    expect(path.map((entry) => entry.kind)).toEqual([EntryKind.USER, EntryKind.ASSISTANT, EntryKind.ASSISTANT]);
    expect(view.batches()).toHaveLength(1);
    expect(view.batches()[0]?.kind).toBe(EntryKind.SUBAGENT_RESULT);
    expect(view.attachments(path[1]!.entryId)).toHaveLength(2);
    expect(view.children(path[0]!.entryId)).toEqual([path[1]]);
    expect(view.running).toBe(false);
    expect(draftKey("e")).toBe("e");
  });
});
