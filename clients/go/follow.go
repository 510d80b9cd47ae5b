package netaclaw

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	mathrand "math/rand/v2"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"netaclaw/client/gen/chatpb"
	"netaclaw/client/gen/sessionpb"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	longestDelay = time.Minute
	silence      = 45 * time.Second // three heartbeats: a stream that says nothing for so long is dead
)

// Follow yields a session's events after a seq until the caller stops or the context ends: each durable one once, in
// order. Cuts, silence, slow-reader ends and gaps are followed by another Watch from the last seq, after a pause, and so
// is a limit that refuses it once something has been followed. Any other error is yielded, and the last thing that is:
// OUT_OF_RANGE means that the tree has to be loaded again. A client that was closed ends it, too.
func (c *Client) Follow(ctx context.Context, sessionID string, afterSeq int64) iter.Seq2[*chatpb.ChatEvent, error] {
	return c.follow(ctx, sessionID, afterSeq, false)
}

func (c *Client) follow(ctx context.Context, sessionID string, afterSeq int64, begun bool) iter.Seq2[*chatpb.ChatEvent, error] {
	return func(yield func(*chatpb.ChatEvent, error) bool) {
		if err := writable(&chatpb.WatchTarget{SessionId: sessionID}); err != nil {
			yield(nil, err)
			return
		}
		last, pauses := afterSeq, pause{}
		for ctx.Err() == nil {
			stopped, err := c.watch(ctx, sessionID, &last, func(event *chatpb.ChatEvent) bool {
				begun = true
				if event.GetSeq() != 0 || event.GetHeartbeat() != nil {
					pauses = pause{}
				}
				return yield(event, nil)
			})
			if stopped || ctx.Err() != nil {
				return
			}
			if !c.resumable(err, begun) {
				yield(nil, err)
				return
			}
			pauses.wait(ctx, retryAfter(err))
		}
	}
}

// RunTurn sends a message and yields its session's events after a seq, until its turn's `done` or `error`, or the receipt
// that says that it was taken back. It survives cuts: before the first event the same request is sent again under one
// request id, so that it starts one turn; after it, or once the message is known to wait, the session is followed from
// the last seq.
func (c *Client) RunTurn(ctx context.Context, request *chatpb.ChatRequest, afterSeq int64) iter.Seq2[*chatpb.ChatEvent, error] {
	return func(yield func(*chatpb.ChatEvent, error) bool) {
		sent := proto.Clone(request).(*chatpb.ChatRequest)
		if sent.RequestId == "" {
			sent.RequestId = rand.Text()
		}
		if err := writable(sent); err != nil {
			yield(nil, err)
			return
		}
		asked := false
		turn, pauses := turn{last: afterSeq, requestID: sent.RequestId}, pause{}
		take := func(event *chatpb.ChatEvent) bool { return yield(event, nil) && !turn.endedBy(event) }
		for turn.turnID == "" && !turn.waits && ctx.Err() == nil {
			stopped, err := c.chat(ctx, sent, &turn, take)
			if stopped || turn.over || ctx.Err() != nil {
				return
			}
			if !c.resumable(err, asked) {
				yield(nil, err)
				return
			}
			asked = true
			pauses.wait(ctx, retryAfter(err))
		}
		for event, err := range c.follow(ctx, turn.sessionID, turn.last, true) {
			if err != nil {
				yield(nil, err)
				return
			}
			turn.note(event)
			if !take(event) {
				return
			}
		}
	}
}

// turn is what is known of a message that was sent.
type turn struct {
	last                         int64
	requestID, sessionID, turnID string
	waits                        bool // it is queued: then its receipts say which turn takes it
	over                         bool // its end was told, and the caller had seen it before
}

// note: a turn is named by its user entry, or by the receipt of a message that waited for it.
func (t *turn) note(event *chatpb.ChatEvent) {
	defer func() { t.over = t.over || event.GetSeq() <= t.last && t.endedBy(event) }()
	if id := event.GetSessionId(); id != "" {
		t.sessionID = id
	}
	if receipt := event.GetMessageReceipt(); receipt.GetRequestId() == t.requestID {
		t.waits = true
		if receipt.GetState() == chatpb.ReceiptState_RECEIPT_STATE_TAKEN {
			t.turnID = event.GetTurnId()
		}
		return
	}
	asked := event.GetSessionEntryAdded().GetEntry().GetKind() == sessionpb.EntryKind_ENTRY_KIND_USER
	if asked && t.turnID == "" && !t.waits {
		t.turnID = event.GetTurnId()
	}
}

// endedBy: the turn ends with the event, or will not begin, because the message was taken back.
func (t *turn) endedBy(event *chatpb.ChatEvent) bool {
	receipt := event.GetMessageReceipt()
	if receipt.GetRequestId() == t.requestID && receipt.GetState() == chatpb.ReceiptState_RECEIPT_STATE_RETRACTED {
		return true
	}
	ends := event.GetDone() != nil || event.GetError() != nil
	return ends && t.turnID != "" && event.GetTurnId() == t.turnID
}

type stream[T any] interface{ Recv() (T, error) }

func (c *Client) chat(ctx context.Context, request *chatpb.ChatRequest, turn *turn, take func(*chatpb.ChatEvent) bool) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	call, err := c.Chat.Chat(ctx, request)
	if err != nil {
		return false, err
	}
	return pump(cancel, call, func(response *chatpb.ChatResponse) (bool, error) {
		every := func(*chatpb.ChatEvent) bool { return true }
		return each(response.GetEvents(), &turn.last, every, take, turn.note)
	})
}

func (c *Client) watch(ctx context.Context, sessionID string, last *int64, take func(*chatpb.ChatEvent) bool) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	target := &chatpb.WatchTarget{SessionId: sessionID, AfterSeq: *last}
	call, err := c.Chat.Watch(ctx, &chatpb.WatchRequest{Targets: []*chatpb.WatchTarget{target}})
	if err != nil {
		return false, err
	}
	own := func(event *chatpb.ChatEvent) bool {
		return event.GetSessionId() == "" || event.GetSessionId() == sessionID
	}
	return pump(cancel, call, func(response *chatpb.WatchResponse) (bool, error) {
		return each(response.GetEvents(), last, own, take, func(*chatpb.ChatEvent) {})
	})
}

// pump reads a stream to its end; true when the taker wants no more.
func pump[T any](cancel context.CancelFunc, call stream[T], take func(T) (bool, error)) (bool, error) {
	watchdog := time.AfterFunc(silence, cancel)
	defer watchdog.Stop()
	for {
		response, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		watchdog.Reset(silence)
		if stopped, err := take(response); stopped || err != nil {
			return stopped, err
		}
	}
}

// each takes what is new of some events; a *Gap is returned when one is missing, by its seq or by a heartbeat's word.
func each(
	events []*chatpb.ChatEvent, last *int64, own, take func(*chatpb.ChatEvent) bool, note func(*chatpb.ChatEvent),
) (bool, error) {
	for _, event := range events {
		if !own(event) {
			continue
		}
		note(event)
		if told := event.GetHeartbeat().GetSeq(); told > *last {
			return false, &Gap{Last: *last, Seq: told}
		}
		seq := event.GetSeq()
		if seq > *last+1 {
			return false, &Gap{Last: *last, Seq: seq}
		}
		if seq != 0 && seq <= *last {
			continue
		}
		*last = max(*last, seq)
		if !take(event) {
			return true, nil
		}
	}
	return false, nil
}

// IsCut tells a stream that was cut on its way, or asks to be opened again; other errors are answers.
func IsCut(err error) bool {
	told, _ := status.FromError(err)
	switch told.Code() {
	case codes.Unavailable, codes.Aborted, codes.Canceled:
		return true
	case codes.Internal, codes.Unknown: // what a cut can look like behind a proxy; from a service these carry details
		return len(told.Details()) == 0
	default:
		return false
	}
}

// resumable: another try may bring more. A limit is an answer where nothing had begun, and so is any end of a closed client.
func (c *Client) resumable(err error, begun bool) bool {
	var gap *Gap
	if err == nil || errors.As(err, &gap) {
		return true
	}
	if c.connection.GetState() == connectivity.Shutdown {
		return false
	}
	limited := status.Code(err) == codes.ResourceExhausted && retryAfter(err) > 0
	return IsCut(err) || begun && limited
}

// retryAfter is the delay that the suite asks for before another try, a minute at most.
func retryAfter(err error) time.Duration {
	told, _ := status.FromError(err)
	for _, detail := range told.Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok {
			return min(longestDelay, retry.GetRetryDelay().AsDuration())
		}
	}
	return 0
}

// writable tells what cannot be sent at all, such as text that is no UTF-8, from what was cut on its way.
func writable(message proto.Message) error {
	if _, err := proto.Marshal(message); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return nil
}

// pause is exponential, with full jitter.
type pause struct{ tries int }

func (p *pause) wait(ctx context.Context, atLeast time.Duration) {
	longest := min(longestPause, firstPause<<min(p.tries, 16))
	p.tries++
	timer := time.NewTimer(atLeast + time.Duration(mathrand.Float64()*float64(longest)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
