import { createClient, type Client as ServiceClient, type Interceptor, type Transport } from "@connectrpc/connect";

import { AgentService } from "./gen/netaclaw/agent/v1/agent_service_pb.js";
import { ChatService } from "./gen/netaclaw/chat/v1/chat_service_pb.js";
import { ModelService } from "./gen/netaclaw/model/v1/model_service_pb.js";
import { SessionCommandService } from "./gen/netaclaw/session/v1/session_command_service_pb.js";
import { type GetSessionTreeResponse, SessionService } from "./gen/netaclaw/session/v1/session_service_pb.js";
import { ToolService } from "./gen/netaclaw/tool/v1/tool_service_pb.js";
import { SessionView, type ViewContainers } from "./view.js";

/** Stubs of the public services on one transport. Nothing is sent before the first call. */
export interface Client {
  readonly chat: ServiceClient<typeof ChatService>;
  readonly sessions: ServiceClient<typeof SessionService>;
  readonly commands: ServiceClient<typeof SessionCommandService>;
  readonly agents: ServiceClient<typeof AgentService>;
  readonly tools: ServiceClient<typeof ToolService>;
  readonly models: ServiceClient<typeof ModelService>;
}

/** How a client is made. */
export interface ConnectOptions {
  /** `http://host:port` of the gateway, without a path. */
  readonly baseUrl: string;
  /** An API key; needed wherever the gateway is not on this machine. */
  readonly apiKey?: string;
}

/** Stubs on a transport of your own. */
export function clientOn(transport: Transport): Client {
  return {
    chat: createClient(ChatService, transport),
    sessions: createClient(SessionService, transport),
    commands: createClient(SessionCommandService, transport),
    agents: createClient(AgentService, transport),
    tools: createClient(ToolService, transport),
    models: createClient(ModelService, transport),
  };
}

/** As many entries as the suite gives at once: a long session is read in few calls. */
const PAGE = 1000;

/**
 * The session as stored: all pages of its tree. Throws ConnectError.
 *
 * `containers` are filled by the view from then on; see SessionView.
 */
export async function loadSession(
  client: Client,
  sessionId: string,
  options: { readonly containers?: ViewContainers; readonly signal?: AbortSignal } = {},
): Promise<SessionView> {
  const pages: GetSessionTreeResponse[] = [];
  let pageToken = "";
  const call = options.signal ? { signal: options.signal } : {};
  do {
    const page = await client.sessions.getSessionTree({ sessionId, pageToken, pageSize: PAGE }, call);
    pages.push(page);
    pageToken = page.nextPageToken;
  } while (pageToken);
  return SessionView.fromTree(pages, options.containers);
}

/** Shows the API key with every call. */
export function withApiKey(apiKey: string | undefined): Interceptor[] {
  if (!apiKey) return [];
  return [
    (next) => (request) => {
      request.header.set("authorization", `Bearer ${apiKey}`);
      return next(request);
    },
  ];
}
