// Package netaclaw is the client's side of netaclaw's contract: stubs of the public services, a view of a session, and
// streams that survive cuts.
package netaclaw

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"netaclaw/client/gen/agentpb"
	"netaclaw/client/gen/chatpb"
	"netaclaw/client/gen/modelpb"
	"netaclaw/client/gen/sessionpb"
	"netaclaw/client/gen/toolpb"
)

const maxMessageBytes = 4 << 20

// Client holds the stubs of one connection to a gateway. It connects lazily and reconnects by itself.
type Client struct {
	Chat     chatpb.ChatServiceClient
	Sessions sessionpb.SessionServiceClient
	Commands sessionpb.SessionCommandServiceClient
	Agents   agentpb.AgentServiceClient
	Tools    toolpb.ToolServiceClient
	Models   modelpb.ModelServiceClient

	connection *grpc.ClientConn
}

// Options say how to connect.
type Options struct {
	// APIKey is needed wherever the gateway is not on this machine.
	APIKey string
	// TLS is nil for plain text.
	TLS credentials.TransportCredentials
}

// Connect makes a client of the gateway at host:port; nothing is sent before the first call. Close it when done.
func Connect(address string, options Options) (*Client, error) {
	transport := options.TLS
	if transport == nil {
		transport = insecure.NewCredentials()
	}
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 20 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
	}
	if options.APIKey != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer{options.APIKey, options.TLS != nil}))
	}
	connection, err := grpc.NewClient("passthrough:///"+address, dial...)
	if err != nil {
		return nil, err
	}
	return &Client{
		Chat:       chatpb.NewChatServiceClient(connection),
		Sessions:   sessionpb.NewSessionServiceClient(connection),
		Commands:   sessionpb.NewSessionCommandServiceClient(connection),
		Agents:     agentpb.NewAgentServiceClient(connection),
		Tools:      toolpb.NewToolServiceClient(connection),
		Models:     modelpb.NewModelServiceClient(connection),
		connection: connection,
	}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.connection.Close() }

// Load reads the session as stored: all pages of its tree.
func (c *Client) Load(ctx context.Context, sessionID string) (*View, error) {
	view := NewView()
	for token := ""; ; {
		page, err := c.Sessions.GetSessionTree(ctx, &sessionpb.GetSessionTreeRequest{SessionId: sessionID, PageToken: token})
		if err != nil {
			return nil, err
		}
		view.add(page)
		if token = page.GetNextPageToken(); token == "" {
			return view, nil
		}
	}
}

type bearer struct {
	key    string
	secure bool
}

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + b.key}, nil
}

func (b bearer) RequireTransportSecurity() bool { return b.secure }
