import { createGrpcTransport } from "@connectrpc/connect-node";

import { clientOn, withApiKey, type Client, type ConnectOptions } from "./client.js";

const PING_EVERY_MS = 30_000;
const PING_WITHIN_MS = 20_000;

/** A client for Node: gRPC over HTTP/2, on one connection that is made again when it is lost. */
export function connectNode(options: ConnectOptions): Client {
  return clientOn(
    createGrpcTransport({
      baseUrl: options.baseUrl,
      interceptors: withApiKey(options.apiKey),
      pingIntervalMs: PING_EVERY_MS,
      pingTimeoutMs: PING_WITHIN_MS,
      pingIdleConnection: true,
    }),
  );
}
