/** What the page shows of a session: the same however its events came. */
import { Gap, SessionView } from "@netaclaw/client";
import { type ClarifyBody, ClarifyState, EntryKind } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import { describe, expect, it } from "vitest";

import { blocksOf, cardsOf, newestLeaf, placeOf, questionsOf, stepsOf, treeOf } from "../src/model/transcript";
import { rowsOf } from "../src/model/tree-rows";
import { callWord, taskWord } from "../src/model/states";
import { conversation, random, turn } from "./recorded";

/** The page, as far as it depends on nothing but the view. */
function shown(view: SessionView) {
  const tree = treeOf(view.entries, view.leafEntryId);
  return tree.path.map((entry) => {
    const attached = tree.attachments.get(entry.entryId);
    const cards = cardsOf(attached);
    const withCard = new Set(attached?.map(({ toolCallId }) => toolCallId));
    const body = entry.body;
    const blocks = body.case === "assistant" ? blocksOf(body.value, (callId) => withCard.has(callId)) : undefined;
    return {
      entry: entry.entryId,
      state: entry.state,
      body: blocks ? undefined : body.value,
      blocks: blocks && {
        ...blocks,
        calls: blocks.calls.map((call) => [call.callId, callWord(call.state), call.result]),
      },
      questions: questionsOf(attached).map(({ body: question }) => question.value),
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

describe.each([turn, conversation])("a recorded $name", ({ events, stored }) => {
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

  it("shows the same order of blocks at every moment: on one branch nothing that is there moves or goes", () => {
    const view = new SessionView();
    let before: string[] = [];
    for (const event of events()) {
      view.apply(event);
      const now = shown(view).flatMap(({ entry, cards }) => [entry, ...cards.map(({ entryId }) => entryId)]);
      if (event.event.case !== "sessionLeafChanged")
        expect(now.slice(0, before.length).filter((id) => before.includes(id))).toEqual(before);
      before = now;
    }
    expect(before.length).toBeGreaterThan(3);
  });

  it("is the same after a reload at any moment, of a tree that is ahead of the events that come", () => {
    const all = events();
    for (const seed of [1, 2, 3]) {
      const view = stored();
      const from = Math.floor(random(seed * 4241)() * all.length);
      for (const event of all.slice(from)) view.apply(event);
      expect(shown(view)).toEqual(shown(stored()));
    }
  });

  it("replayed over the finished tree changes nothing", () => {
    const view = stored();
    for (const event of events()) view.apply(event);
    expect(shown(view)).toEqual(shown(stored()));
  });
});

describe("the recorded conversation", () => {
  const { events, stored } = conversation;

  it("holds every kind of event that the page shows", () => {
    const kinds = new Set(events().map(({ event }) => event.case));
    expect([...kinds]).toEqual(
      expect.arrayContaining([
        ...["clarifyRequest", "clarifyResolved", "todoUpdate", "compactionStart", "compactionDone", "thinkingDone"],
        ...["messageReceipt", "steerReceipt", "subagentEvent", "toolCallStarted", "toolCallCompleted"],
        ...["sessionLeafChanged", "sessionUpdated", "tokenUpdate", "done"],
      ]),
    );
  });

  it("shows questions, approvals, plan and summary where they belong", () => {
    const path = shown(stored());
    const questions = path.flatMap((message) => message.questions);
    expect(questions.map((question) => [(question as ClarifyBody).state, (question as ClarifyBody).answer])).toEqual([
      [ClarifyState.ANSWERED, "red"],
      [ClarifyState.ANSWERED, "allow"],
      [ClarifyState.ANSWERED, "deny"],
    ]);
    expect(path.flatMap(({ blocks }) => blocks?.todos.map(({ status }) => status) ?? [])).toEqual([
      "completed",
      "pending",
    ]);
    expect(
      path.filter(({ cards }) => cards.length).map(({ cards }) => cards[0]!.tasks.map(([, word]) => word)),
    ).toEqual([["completed"], ["completed", "failed", "completed"]]);
    expect(
      stored()
        .path()
        .filter(({ kind }) => kind === EntryKind.COMPACTION),
    ).toHaveLength(1);
  });

  it("keeps how a message entered", () => {
    const users = stored()
      .path()
      .flatMap(({ body }) => (body.case === "user" && body.value.origin ? [[body.value.text, body.value.origin]] : []));
    expect(users).toEqual([
      ["mind the others", "steer"],
      ["list the files", "queue"],
    ]);
  });
});

describe("a delegated turn", () => {
  const { stored } = turn;

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
  const { stored } = turn;

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

describe("several first messages", () => {
  /** Of the conversation, and of a second root with two turns, where the leaf stands. */
  function twoRoots() {
    const view = conversation.stored();
    const [root] = view.path();
    const answer = view.path().find(({ kind }) => kind === EntryKind.ASSISTANT)!;
    const made = [
      { ...root!, entryId: "anew", turnId: "second", label: "" },
      { ...answer, entryId: "answer", parentEntryId: "anew", turnId: "second", label: "" },
      { ...root!, entryId: "more", parentEntryId: "answer", turnId: "third", label: "" },
      { ...answer, entryId: "end", parentEntryId: "more", turnId: "third", label: "" },
    ];
    for (const entry of made) view.entries.set(entry.entryId, entry);
    return { view, root: root!, oldLeaf: view.leafEntryId };
  }

  it("are versions of each other, each with its own path", () => {
    const { view, root, oldLeaf } = twoRoots();
    const tree = treeOf(view.entries, "end");
    expect(tree.path.map(({ entryId }) => entryId)).toEqual(["anew", "answer", "more", "end"]);
    expect(tree.children.get("")!.map(({ entryId }) => entryId)).toEqual([root.entryId, "anew"]);
    expect(newestLeaf(tree, "anew")).toBe("end");
    expect(treeOf(view.entries, oldLeaf).path).toEqual(conversation.stored().path());
    expect(newestLeaf(tree, "")).toBe("end");
  });

  it("are edited at the root, and what follows them behind what it follows", () => {
    const { view, root } = twoRoots();
    expect(placeOf(root)).toEqual({ fromRoot: true });
    expect(placeOf(view.entries.get("more")!)).toEqual({ leafEntryId: "answer" });
  });

  it("are numbered in the drawer, where one alone is not", () => {
    const { view, root } = twoRoots();
    const rows = rowsOf(treeOf(view.entries, "end"), "end");
    expect(rows.filter((row) => row.root).map((row) => [row.root, row.entry.entryId, row.depth])).toEqual([
      [1, root.entryId, 0],
      [2, "anew", 0],
    ]);
    expect(rows.slice(-3).map(({ entry, folded }) => [entry.entryId, folded])).toEqual([
      ["anew", 0],
      ["more", 1],
      ["end", 0],
    ]);
    const alone = conversation.stored();
    const before = rowsOf(treeOf(alone.entries, alone.leafEntryId), alone.leafEntryId);
    expect(before.every((row) => row.root === 0)).toBe(true);
    const same = ({ entry, depth, folded, branches }: (typeof rows)[number]) => [
      entry.entryId,
      depth,
      folded,
      branches,
    ];
    expect(rows.slice(0, before.length).map(same), "the first tree looks as before").toEqual(before.map(same));
  });

  it("show nothing when one stands before all of them", () => {
    const { view, root } = twoRoots();
    const tree = treeOf(view.entries, "");
    expect(tree.path).toEqual([]);
    expect(rowsOf(tree, "").filter((row) => row.root)).toHaveLength(2);
    expect(tree.children.get("")![0]).toBe(root);
  });
});
