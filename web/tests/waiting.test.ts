import { create } from "@bufbuild/protobuf";
import { ReceiptState } from "@netaclaw/client/gen/netaclaw/chat/v1/event_pb";
import { QueuedMessageSchema } from "@netaclaw/client/gen/netaclaw/session/v1/session_service_pb";
import { describe, expect, it } from "vitest";

import { type Waiting, withReceipt, withStored } from "../src/stores/waiting";

const stored = (requestId: string, text: string) => create(QueuedMessageSchema, { requestId, text });
const known = (requestId: string, state: Waiting["state"], text = "long words") => ({ requestId, state, text });

describe("messages that wait", () => {
  it("are those of the store after a reload, in its order", () => {
    expect(withStored([], [stored("a", "one"), stored("b", "two")])).toEqual([
      known("a", "queued", "one"),
      known("b", "queued", "two"),
    ]);
  });

  it("keep what this page knows better, and lose what was taken meanwhile", () => {
    const before = [known("gone", "queued"), known("sent", "sending"), known("late", "missed"), known("a", "sending")];
    expect(withStored(before, [stored("a", "long")])).toEqual([
      known("a", "queued"),
      known("sent", "sending"),
      known("late", "missed"),
    ]);
  });

  it("follow their receipts", () => {
    const before = [known("a", "sending"), known("b", "queued")];
    expect(withReceipt(before, "a", ReceiptState.QUEUED)[0]?.state).toBe("queued");
    expect(withReceipt(before, "a", ReceiptState.MISSED)[0]?.state).toBe("missed");
    expect(withReceipt(before, "b", ReceiptState.TAKEN)).toEqual([before[0]]);
    expect(withReceipt(before, "b", ReceiptState.RETRACTED)).toEqual([before[0]]);
    expect(withReceipt(before, "other", ReceiptState.TAKEN)).toEqual(before);
  });
});
