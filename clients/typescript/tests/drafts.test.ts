import { create } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";

import { startedDraft, withDelta, withOutput } from "../src/drafts.js";
import {
  AssistantStreamDeltaSchema,
  AssistantStreamStartSchema,
  StreamChannel,
  ToolResultStreamedSchema,
} from "../src/gen/netaclaw/chat/v1/event_pb.js";

const start = (text = "", attempt = 1) => startedDraft(create(AssistantStreamStartSchema, { attempt, text }));
const delta = (offset: number, text: string, attempt = 1, channel = StreamChannel.TEXT) =>
  create(AssistantStreamDeltaSchema, { offset: BigInt(offset), text, attempt, channel });
const output = (offset: number, text: string) => create(ToolResultStreamedSchema, { offset: BigInt(offset), text });

describe("a draft", () => {
  test("grows by deltas in order", () => {
    expect(withDelta(withDelta(start(), delta(0, "one ")), delta(4, "two")).text).toBe("one two");
  });

  test("counts bytes of UTF-8, not characters", () => {
    expect(withDelta(withDelta(start("grüße 你"), delta(11, "好")), delta(14, "!")).text).toBe("grüße 你好!");
  });

  test("ignores what it has and takes the rest of an overlap", () => {
    const known = start("grüße");
    expect(withDelta(known, delta(2, "ü"))).toBe(known);
    expect(withDelta(known, delta(2, "üße, 你")).text).toBe("grüße, 你");
  });

  test("ignores a hole and another attempt", () => {
    const known = start("one");
    expect(withDelta(known, delta(5, "x"))).toBe(known);
    expect(withDelta(known, delta(3, "x", 2))).toBe(known);
  });

  test("keeps thinking apart", () => {
    const both = withDelta(withDelta(start(), delta(0, "hm", 1, StreamChannel.THINKING)), delta(0, "yes"));
    expect([both.text, both.thinking]).toEqual(["yes", "hm"]);
  });
});

describe("a tool's output", () => {
  test("grows, ignores what is known, and begins anew after a hole", () => {
    let known = withOutput(undefined, output(0, "ab"));
    known = withOutput(known, output(1, "bcd"));
    expect(known).toEqual({ end: 4, text: "abcd" });
    expect(withOutput(known, output(0, "abcd"))).toEqual(known);
    expect(withOutput(known, output(10, "x"))).toEqual({ end: 11, text: "x" });
  });

  test("is kept to its last stretch", () => {
    const known = withOutput(withOutput(undefined, output(0, "a".repeat(60_000))), output(60_000, "b".repeat(60_000)));
    expect(known.end).toBe(120_000);
    expect(known.text).toBe("a".repeat(5_536) + "b".repeat(60_000));
  });
});
