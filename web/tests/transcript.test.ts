/** What the page shows of a session: the same however its events came. */
import { Gap, SessionView } from "@netaclaw/client";
import { describe, expect, it } from "vitest";

import { blocksOf, cardsOf, newestLeaf, stepsOf, treeOf } from "../src/model/transcript";
import { taskWord } from "../src/model/states";
import { events, random, stored } from "./recorded";

/** The page, as far as it depends on nothing but the view. */
function shown(view: SessionView) {
  const tree = treeOf(view.entries, view.leafEntryId);
  return tree.path.map((entry) => {
    const cards = cardsOf(tree.attachments.get(entry.entryId));
    const body = entry.body;
    return {
      entry: entry.entryId,
      blocks: body.case === "assistant" ? blocksOf(body.value, () => true) : body.value,
      cards: cards.map(({ entryId, batch, events: steps, eventCount }) => ({
        entryId,
        tasks: batch.items.map((task) => [task.taskId, taskWord(task.state), task.summary]),
        steps: batch.items.map((task) =>
          stepsOf(steps, task.taskId).map(({ event, result }) => [event.type, result?.type]),
        ),
        eventCount,
      })),
    };
  });
}

describe("a recorded turn", () => {
  it("ends as the tree that was stored", () => {
    const view = new SessionView();
    for (const event of events()) view.apply(event);
    expect(shown(view)).toEqual(shown(stored()));
  });

  it.each([1, 2, 3, 4, 5, 6, 7, 8])("survives cuts, repeats and shuffled duplicates (seed %i)", (seed) => {
    const next = random(seed * 7919);
    const all = events();
    const view = new SessionView();
    let at = 0;
    while (at < all.length) {
      const stretch = all.slice(at, at + 1 + Math.floor(next() * 9));
      const repeats = all
        .slice(0, at)
        .sort(() => next() - 0.5)
        .slice(0, 4)
        .filter(({ seq }) => seq);
      for (const event of [...repeats, ...stretch]) view.apply(event);
      at += stretch.length;
      if (next() < 0.3) at = Math.max(0, at - Math.floor(next() * 6)); // cut: some come again
    }
    expect(shown(view)).toEqual(shown(stored()));
  });

  it("is refused where an event is missing, and goes on where it was", () => {
    const durable = events().filter(({ seq }) => seq);
    const view = new SessionView();
    view.apply(durable[0]!);
    expect(() => view.apply(durable[2]!)).toThrow(Gap);
    for (const event of durable.slice(1)) view.apply(event);
    expect(shown(view)).toEqual(shown(stored()));
  });

  it("shows the same order of blocks at every moment: nothing that is there moves or goes", () => {
    const view = new SessionView();
    let before: string[] = [];
    for (const event of events()) {
      view.apply(event);
      const now = shown(view).flatMap(({ entry, cards }) => [entry, ...cards.map(({ entryId }) => entryId)]);
      expect(now.slice(0, before.length).filter((id) => before.includes(id))).toEqual(before);
      before = now;
    }
    expect(before.length).toBeGreaterThan(3);
  });

  it("replayed over the finished tree changes nothing", () => {
    const view = stored();
    for (const event of events()) view.apply(event);
    expect(shown(view)).toEqual(shown(stored()));
  });

  it("puts a result with its call", () => {
    const card = [...treeOf(stored().entries, stored().leafEntryId).attachments.values()].flatMap(cardsOf)[0]!;
    const calls = card.batch.items
      .flatMap((task) => stepsOf(card.events, task.taskId))
      .filter(({ event }) => event.toolName);
    expect(calls.length).toBeGreaterThan(0);
    expect(calls.every(({ event, result }) => event.type !== "tool_result" && result?.type === "tool_result")).toBe(
      true,
    );
  });
});

describe("a branch switch", () => {
  it("shows the path to the new leaf, and the newest leaf below a sibling is found from the tree", () => {
    const view = stored();
    const whole = treeOf(view.entries, view.leafEntryId);
    const root = whole.path[0]!;
    const other = { ...root, entryId: "other", turnId: "other" };
    const answer = { ...whole.path.at(-1)!, entryId: "answer", parentEntryId: "other" };
    view.entries.set("other", other).set("answer", answer);
    const tree = treeOf(view.entries, "answer");
    expect(tree.path.map(({ entryId }) => entryId)).toEqual(["other", "answer"]);
    expect(tree.children.get("")!.map(({ entryId }) => entryId)).toEqual([root.entryId, "other"]);
    expect(newestLeaf(tree, "other")).toBe("answer");
    expect(newestLeaf(tree, root.entryId)).toBe(view.leafEntryId);
    expect(treeOf(view.entries, view.leafEntryId).path).toEqual(whole.path);
  });
});
