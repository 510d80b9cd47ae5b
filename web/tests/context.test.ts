import { create } from "@bufbuild/protobuf";
import { TokenUpdateSchema } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import { EntrySchema } from "@netaclaw/client/gen/netaclaw/session/v1/entry_pb";
import { beforeEach, describe, expect, it } from "vitest";

import { contextOf } from "../src/model/context";

const answer = (inputTokens: bigint, outputTokens: bigint, model = "m") =>
  create(EntrySchema, { body: { case: "assistant", value: { model, usage: { inputTokens, outputTokens } } } });
const compaction = (tokensAfter: number) =>
  create(EntrySchema, { body: { case: "compaction", value: { tokensAfter } } });
const live = (contextUsed: bigint, contextWindow: bigint) => create(TokenUpdateSchema, { contextUsed, contextWindow });

describe("the context", () => {
  beforeEach(() => localStorage.clear());

  it("is what the suite reports while a turn runs", () => {
    expect(contextOf([answer(100n, 10n)], live(500n, 8000n))).toEqual({ used: 500, window: 8000 });
  });

  it("is what the path says after a reload, in a window that was reported before", () => {
    contextOf([answer(100n, 10n)], live(500n, 8000n));
    expect(contextOf([answer(100n, 10n)], undefined)).toEqual({ used: 110, window: 8000 });
    expect(contextOf([answer(100n, 10n, "another")], undefined)).toEqual({ used: 110, window: 0 });
  });

  it("is what a compaction left of it", () => {
    expect(contextOf([answer(9000n, 10n), compaction(700)], undefined).used).toBe(700);
    expect(contextOf([], undefined)).toEqual({ used: 0, window: 0 });
  });
});
