import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, describe, expect, test } from "vitest";

import { browserTransport } from "../src/browser.js";
import { clientOn } from "../src/client.js";
import { isCut } from "../src/errors.js";
import { ChatService, PingRequestSchema, WatchRequestSchema } from "../src/gen/netaclaw/chat/v1/chat_service_pb.js";

/** A stream of messages with one string, as the case has them. */
const method = { ...ChatService.method.watch, output: PingRequestSchema };

async function* once() {
  yield create(WatchRequestSchema);
}

const cases = (name: string): Response[] =>
  JSON.parse(readFileSync(new URL(`../../../tests/cases/${name}`, import.meta.url), "utf8")).responses;

interface Response {
  readonly http_status: number;
  readonly headers: Record<string, string>;
  readonly body_chunks_hex?: string[];
  readonly body_hex?: string;
  readonly expect: { readonly code: number; readonly message: string };
}

let server: Server | undefined;
afterEach(() => server?.close());

async function answering(response: Response) {
  server = createServer((request, answer) => {
    request.resume();
    answer.writeHead(response.http_status, response.headers);
    for (const chunk of response.body_chunks_hex ?? [response.body_hex ?? ""]) answer.write(Buffer.from(chunk, "hex"));
    answer.end();
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return browserTransport({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
}

describe("a stream cut without trailers", () => {
  test.each(cases("grpcweb-01.json"))("is never a normal end, and asks to be resumed (%#)", async (response) => {
    const transport = await answering(response);
    let messages = 0;
    let error: unknown;
    try {
      const stream = await transport.stream(method, undefined, undefined, undefined, once());
      for await (const { nonce } of stream.message) messages += nonce === "hi" ? 1 : 0;
    } catch (caught) {
      error = caught;
    }
    const whole = response.body_chunks_hex ?? [];
    expect(messages).toBe(whole.length ? 1 : 0);
    expect(error).toBeInstanceOf(ConnectError);
    expect(isCut(error)).toBe(true);
  });
});

describe("a status and its words", () => {
  test.each(cases("grpcweb-02.json"))("arrive as they were meant (%#)", async (response) => {
    const { expect: expected } = response;
    const client = clientOn(await answering(response));
    const failed = client.chat.ping({});
    await expect(failed).rejects.toMatchObject({ code: expected.code as Code, rawMessage: expected.message });
  });
});
