package netaclaw

import (
	"context"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"netaclaw/client/gen/chatpb"
)

// patient ends each stream as its script says, after so many events.
type patient struct {
	chatpb.UnimplementedChatServiceServer
	events []*chatpb.ChatEvent
	script []ending
	asked  []time.Time
}

type ending struct {
	events int
	err    error
}

func (s *patient) next() ending {
	s.asked = append(s.asked, time.Now())
	next := s.script[min(len(s.asked), len(s.script))-1]
	return next
}

func (s *patient) Watch(request *chatpb.WatchRequest, stream grpc.ServerStreamingServer[chatpb.WatchResponse]) error {
	next := s.next()
	for _, event := range s.events {
		if seq := event.GetSeq(); next.events > 0 && seq > request.GetTargets()[0].GetAfterSeq() {
			next.events--
			if err := stream.Send(&chatpb.WatchResponse{Events: []*chatpb.ChatEvent{event}}); err != nil {
				return err
			}
		}
	}
	return next.err
}

func (s *patient) Chat(_ *chatpb.ChatRequest, stream grpc.ServerStreamingServer[chatpb.ChatResponse]) error {
	next := s.next()
	for _, event := range s.events[:next.events] {
		if err := stream.Send(&chatpb.ChatResponse{Events: []*chatpb.ChatEvent{event}}); err != nil {
			return err
		}
	}
	return next.err
}

func limited(t *testing.T, delay time.Duration) error {
	t.Helper()
	told, err := status.New(codes.ResourceExhausted, "limited").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(delay)})
	if err != nil {
		t.Fatal(err)
	}
	return told.Err()
}

var cutShort = status.Error(codes.Unavailable, "cut")

const patience = 300 * time.Millisecond

// checkPatience: between the second try and the third lies the delay that the suite asked for.
func checkPatience(t *testing.T, asked []time.Time) {
	t.Helper()
	if waited := asked[2].Sub(asked[1]); waited < patience {
		t.Fatalf("waited %v", waited)
	}
}

func TestALimitThatRefusesWhatWasFollowedIsWaitedFor(t *testing.T) {
	events, tree := recorded(t)
	service := &patient{events: events, script: []ending{{2, cutShort}, {0, limited(t, patience)}, {2, cutShort}}}
	client := connected(t, service)
	seqs := []int64{}
	for event, err := range client.Follow(context.Background(), tree.GetSession().GetSessionId(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seqs = append(seqs, event.GetSeq()); len(seqs) == 4 {
			break
		}
	}
	checkPatience(t, service.asked)
}

func TestALimitThatRefusesATurnThatMayHaveBegunIsWaitedFor(t *testing.T) {
	events, tree := recorded(t)
	script := []ending{{0, cutShort}, {0, limited(t, patience)}, {len(events), nil}}
	service := &patient{events: events, script: script}
	client := connected(t, service)
	request := &chatpb.ChatRequest{SessionId: tree.GetSession().GetSessionId(), Content: "count"}
	for _, err := range client.RunTurn(context.Background(), request, 0) {
		if err != nil {
			t.Fatal(err)
		}
	}
	checkPatience(t, service.asked)
}

func TestALimitIsAnAnswerWhereNothingHadBegun(t *testing.T) {
	client := connected(t, &patient{script: []ending{{0, limited(t, patience)}}})
	for _, err := range client.Follow(context.Background(), "s", 0) {
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	for _, err := range client.RunTurn(context.Background(), &chatpb.ChatRequest{Content: "count"}, 0) {
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
}

// within fails when a stream goes on for ever.
func within(t *testing.T, stream func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := stream(ctx)
	if ctx.Err() != nil {
		t.Fatal("it went on for ever")
	}
	return err
}

func TestARequestThatCannotBeWrittenIsAnErrorAtOnce(t *testing.T) {
	client := connected(t, &patient{script: []ending{{0, cutShort}}})
	turned := within(t, func(ctx context.Context) (last error) {
		for _, err := range client.RunTurn(ctx, &chatpb.ChatRequest{Content: "half a \xe2\x82 sign"}, 0) {
			last = err
		}
		return last
	})
	followed := within(t, func(ctx context.Context) (last error) {
		for _, err := range client.Follow(ctx, "\xff", 0) {
			last = err
		}
		return last
	})
	if turned == nil || followed == nil {
		t.Fatalf("%v, %v", turned, followed)
	}
}

func TestStreamsEndWithAnErrorWhenTheirClientIsClosed(t *testing.T) {
	events, _ := recorded(t)
	client := connected(t, &patient{events: events, script: []ending{{1, cutShort}}})
	err := within(t, func(ctx context.Context) (last error) {
		for _, err := range client.Follow(ctx, events[0].GetSessionId(), 0) {
			if err == nil {
				_ = client.Close()
			}
			last = err
		}
		return last
	})
	if err == nil {
		t.Fatal("it ended as if nothing had happened")
	}
}
