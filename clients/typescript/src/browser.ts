import type { Transport } from "@connectrpc/connect";
import { createGrpcWebTransport } from "@connectrpc/connect-web";

import { clientOn, withApiKey, type Client, type ConnectOptions } from "./client.js";
import { lenientFetch } from "./lenient-fetch.js";

/** A client for browsers: gRPC-Web, binary, over fetch. Streams arrive message by message. */
export function connectBrowser(options: ConnectOptions): Client {
  return clientOn(browserTransport(options));
}

/** What connectBrowser() speaks through. */
export function browserTransport(options: ConnectOptions): Transport {
  return createGrpcWebTransport({
    baseUrl: options.baseUrl,
    useBinaryFormat: true,
    fetch: lenientFetch,
    interceptors: withApiKey(options.apiKey),
  });
}
