import { Code, ConnectError } from "@connectrpc/connect";

import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";

const DOMAIN = "netaclaw";
const LONGEST_DELAY_MS = 60_000;
const AGAIN: ReadonlySet<Code> = new Set([Code.Unavailable, Code.Aborted, Code.Canceled]);
/**
 * What a cut connection can look like on its way; a message that breaks off half is read as an invalid one. From a
 * service itself these carry details.
 */
const OF_THE_ROAD: ReadonlySet<Code> = new Set([Code.Internal, Code.Unknown, Code.DataLoss, Code.InvalidArgument]);

/** Whether a stream was cut on its way, or asks to be opened again; other errors are answers. */
export function isCut(error: unknown): boolean {
  const connect = ConnectError.from(error);
  if (AGAIN.has(connect.code)) return true;
  if (!OF_THE_ROAD.has(connect.code)) return false;
  return connect.details.length === 0 && !connect.metadata.has("grpc-status-details-bin");
}

/** Whether a limit refused a call that may be made again after `retryAfterMs()`. */
export function isLimit(error: unknown): boolean {
  return ConnectError.from(error).code === Code.ResourceExhausted && retryAfterMs(error) !== undefined;
}

/** Why a call failed, as `netaclaw.error.v1.Reason` names it without REASON_; empty where the service did not say. */
export function reasonOf(error: unknown): string {
  return infoOf(error)?.reason ?? "";
}

/** What the reason's documentation lists as its metadata. */
export function reasonMetadata(error: unknown): Readonly<Record<string, string>> {
  return infoOf(error)?.metadata ?? {};
}

/** Milliseconds after which another try makes sense, where waiting helps; a minute at most. */
export function retryAfterMs(error: unknown): number | undefined {
  const [retry] = ConnectError.from(error).findDetails(RetryInfoSchema);
  const delay = retry?.retryDelay;
  return delay ? Math.min(LONGEST_DELAY_MS, Number(delay.seconds) * 1000 + delay.nanos / 1e6) : undefined;
}

function infoOf(error: unknown) {
  return ConnectError.from(error)
    .findDetails(ErrorInfoSchema)
    .find((info) => info.domain === DOMAIN);
}

/** A durable event came too early: watch again from `last`. */
export class Gap extends Error {
  constructor(
    readonly last: bigint,
    readonly seq: bigint,
  ) {
    super(`event ${seq} does not follow event ${last}`);
    this.name = "Gap";
  }
}
