package netaclaw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"netaclaw/client/gen/chatpb"
	"netaclaw/client/gen/sessionpb"
)

// recorded is a real delegated turn: its events as they came, and the tree afterwards.
func recorded(t *testing.T) ([]*chatpb.ChatEvent, *sessionpb.GetSessionTreeResponse) {
	t.Helper()
	raw, err := os.ReadFile("../../tests/cases/recorded-turn.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Events []json.RawMessage
		Tree   json.RawMessage
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	events := make([]*chatpb.ChatEvent, len(file.Events))
	for n, text := range file.Events {
		events[n] = &chatpb.ChatEvent{}
		if err := protojson.Unmarshal(text, events[n]); err != nil {
			t.Fatal(err)
		}
	}
	tree := &sessionpb.GetSessionTreeResponse{}
	if err := protojson.Unmarshal(file.Tree, tree); err != nil {
		t.Fatal(err)
	}
	return events, tree
}

func stored(t *testing.T) *View {
	t.Helper()
	_, tree := recorded(t)
	view := NewView()
	view.add(tree)
	return view
}

// checkEqual compares what the view promises: seq, leaf, and the text and state of every entry on the path.
func checkEqual(t *testing.T, got, want *View) {
	t.Helper()
	if got.Seq != want.Seq || got.LeafEntryID != want.LeafEntryID || len(got.Entries) != len(want.Entries) {
		t.Fatalf("seq, leaf, entries: %d %s %d, not %d %s %d", got.Seq, got.LeafEntryID, len(got.Entries), want.Seq, want.LeafEntryID, len(want.Entries))
	}
	for n, entry := range want.Path() {
		mine := got.Path()[n]
		if mine.GetEntryId() != entry.GetEntryId() || mine.GetState() != entry.GetState() || got.TextOf(entry.GetEntryId()) != want.TextOf(entry.GetEntryId()) {
			t.Fatalf("entry %s differs: %q, not %q", entry.GetEntryId(), got.TextOf(entry.GetEntryId()), want.TextOf(entry.GetEntryId()))
		}
	}
}

func TestAViewOfAllEventsIsTheStoredOneAfterAnyCutsAndReplays(t *testing.T) {
	events, _ := recorded(t)
	for seed := range uint64(50) {
		source := rand.New(rand.NewPCG(seed, 0))
		view := NewView()
		for at := 0; at < len(events); at++ {
			if _, err := view.Apply(events[at]); err != nil {
				t.Fatal(err)
			}
			if source.Float64() < 0.2 {
				at = max(-1, at-source.IntN(10))
			}
		}
		checkEqual(t, view, stored(t))
	}
}

func TestAnEventThatLeavesAHoleIsAGapAndChangesNothing(t *testing.T) {
	events, _ := recorded(t)
	view := NewView()
	_, err := view.Apply(events[4])
	var gap *Gap
	for n := 5; err == nil; n++ {
		_, err = view.Apply(events[n])
	}
	if !errors.As(err, &gap) || view.Seq != 0 {
		t.Fatalf("%v, seq %d", err, view.Seq)
	}
}

func TestTextIsShownWhileItIsWritten(t *testing.T) {
	events, _ := recorded(t)
	view := NewView()
	seen := map[string]bool{}
	for _, event := range events {
		if _, err := view.Apply(event); err != nil {
			t.Fatal(err)
		}
		seen[view.TextOf(view.LeafEntryID)] = true
	}
	if len(seen) < 5 {
		t.Fatalf("only %d texts were seen", len(seen))
	}
}

// cutting serves the events after a seq and cuts each stream after a few.
type cutting struct {
	chatpb.UnimplementedChatServiceServer
	events  []*chatpb.ChatEvent
	each    int
	streams int
	asked   []string
}

func (c *cutting) serve(afterSeq int64, send func(*chatpb.ChatEvent) error) error {
	c.streams++
	sent := 0
	for _, event := range c.events {
		if event.GetSeq() != 0 && event.GetSeq() <= afterSeq {
			continue
		}
		if event.GetSeq() == 0 && afterSeq > 0 && sent == 0 {
			continue // live events of before are gone
		}
		if sent == c.each {
			return status.Error(codes.Unavailable, "cut")
		}
		if err := send(event); err != nil {
			return err
		}
		sent++
	}
	return status.Error(codes.Unavailable, "cut")
}

func (c *cutting) Watch(request *chatpb.WatchRequest, stream grpc.ServerStreamingServer[chatpb.WatchResponse]) error {
	return c.serve(request.GetTargets()[0].GetAfterSeq(), func(event *chatpb.ChatEvent) error {
		return stream.Send(&chatpb.WatchResponse{Events: []*chatpb.ChatEvent{event}})
	})
}

func (c *cutting) Chat(request *chatpb.ChatRequest, stream grpc.ServerStreamingServer[chatpb.ChatResponse]) error {
	c.asked = append(c.asked, request.GetRequestId())
	if len(c.asked) == 1 {
		return status.Error(codes.Unavailable, "cut before the first event")
	}
	return c.serve(0, func(event *chatpb.ChatEvent) error {
		return stream.Send(&chatpb.ChatResponse{Events: []*chatpb.ChatEvent{event}})
	})
}

func connected(t *testing.T, service chatpb.ChatServiceServer) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	chatpb.RegisterChatServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	client, err := Connect(listener.Addr().String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestATurnThatIsCutAgainAndAgainEndsAsItIsStored(t *testing.T) {
	events, tree := recorded(t)
	for _, each := range []int{1, 3, 10, 50} {
		t.Run(fmt.Sprintf("after %d events", each), func(t *testing.T) {
			service := &cutting{events: events, each: each}
			client := connected(t, service)
			view := NewView()
			request := &chatpb.ChatRequest{SessionId: tree.GetSession().GetSessionId(), Content: "count"}
			for event, err := range client.RunTurn(context.Background(), request, 0) {
				if err != nil {
					t.Fatal(err)
				}
				if _, err := view.Apply(event); err != nil {
					t.Fatal(err)
				}
			}
			checkEqual(t, view, stored(t))
			if len(service.asked) < 2 || service.asked[0] == "" || service.asked[0] != service.asked[1] {
				t.Fatalf("request ids: %v", service.asked)
			}
		})
	}
}

// scripted answers each Chat with the next of its streams and cuts it then; Watch tells the session as it stands.
type scripted struct {
	chatpb.UnimplementedChatServiceServer
	chats   [][]*chatpb.ChatEvent
	session []*chatpb.ChatEvent
	asked   []string
}

func (s *scripted) Chat(request *chatpb.ChatRequest, stream grpc.ServerStreamingServer[chatpb.ChatResponse]) error {
	s.asked = append(s.asked, request.GetRequestId())
	if len(s.asked) > len(s.chats) {
		return status.Error(codes.FailedPrecondition, "asked too often")
	}
	if err := stream.Send(&chatpb.ChatResponse{Events: s.chats[len(s.asked)-1]}); err != nil {
		return err
	}
	return status.Error(codes.Unavailable, "cut")
}

func (s *scripted) Watch(request *chatpb.WatchRequest, stream grpc.ServerStreamingServer[chatpb.WatchResponse]) error {
	for _, event := range s.session {
		if event.GetSeq() <= request.GetTargets()[0].GetAfterSeq() {
			continue
		}
		if err := stream.Send(&chatpb.WatchResponse{Events: []*chatpb.ChatEvent{event}}); err != nil {
			return err
		}
	}
	return status.Error(codes.FailedPrecondition, "read past the end")
}

func asked(turnID string) *chatpb.ChatEvent {
	entry := &sessionpb.Entry{Kind: sessionpb.EntryKind_ENTRY_KIND_USER}
	return &chatpb.ChatEvent{TurnId: turnID, Event: &chatpb.ChatEvent_SessionEntryAdded{
		SessionEntryAdded: &chatpb.SessionEntryAdded{Entry: entry},
	}}
}

func receipt(turnID, requestID string, state chatpb.ReceiptState) *chatpb.ChatEvent {
	told := &chatpb.MessageReceipt{RequestId: requestID, State: state}
	return &chatpb.ChatEvent{TurnId: turnID, Event: &chatpb.ChatEvent_MessageReceipt{MessageReceipt: told}}
}

func done(turnID string) *chatpb.ChatEvent {
	return &chatpb.ChatEvent{TurnId: turnID, Event: &chatpb.ChatEvent_Done{Done: &chatpb.Done{}}}
}

// numbered gives a session's events their seqs, from 1.
func numbered(events ...*chatpb.ChatEvent) []*chatpb.ChatEvent {
	for n, event := range events {
		event.SessionId, event.Seq = "s", int64(n+1)
	}
	return events
}

// waited: a message waits for another's turn, and for that of a message before it.
func waited() []*chatpb.ChatEvent {
	return numbered(
		asked("theirs"),
		receipt("theirs", "before", chatpb.ReceiptState_RECEIPT_STATE_QUEUED),
		receipt("theirs", "mine", chatpb.ReceiptState_RECEIPT_STATE_QUEUED),
		done("theirs"),
		receipt("third", "before", chatpb.ReceiptState_RECEIPT_STATE_TAKEN),
		asked("third"),
		done("third"),
		receipt("own", "mine", chatpb.ReceiptState_RECEIPT_STATE_TAKEN),
		asked("own"),
		done("own"),
		asked("later"),
	)
}

func TestAMessageThatWaitsIsFollowedToTheEndOfItsOwnTurn(t *testing.T) {
	retracted := numbered(append(waited()[:3], receipt("theirs", "mine", chatpb.ReceiptState_RECEIPT_STATE_RETRACTED), done("theirs"))...)
	for name, test := range map[string]struct {
		service *scripted
		after   int64
		last    int64
	}{
		"its receipt is a gap":           {&scripted{chats: [][]*chatpb.ChatEvent{waited()[2:3]}, session: waited()}, 0, 10},
		"cut after its receipt":          {&scripted{chats: [][]*chatpb.ChatEvent{waited()[2:3]}, session: waited()}, 2, 10},
		"taken back":                     {&scripted{chats: [][]*chatpb.ChatEvent{retracted[2:3]}, session: retracted}, 0, 4},
		"sent again after it was taken":  {&scripted{chats: [][]*chatpb.ChatEvent{nil, waited()[7:10]}, session: waited()}, 1, 10},
		"over before what is known":      {&scripted{chats: [][]*chatpb.ChatEvent{waited()[7:10]}, session: waited()}, 10, 10},
		"begun at once, its entry a gap": {&scripted{chats: [][]*chatpb.ChatEvent{waited()[8:10]}, session: waited()}, 1, 10},
	} {
		t.Run(name, func(t *testing.T) {
			client := connected(t, test.service)
			request := &chatpb.ChatRequest{SessionId: "s", Content: "and then", RequestId: "mine"}
			var got, want []int64
			for event, err := range client.RunTurn(t.Context(), request, test.after) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, event.GetSeq())
			}
			for seq := test.after + 1; seq <= test.last; seq++ {
				want = append(want, seq)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seqs %v, not %v", got, want)
			}
			for _, id := range test.service.asked {
				if id != "mine" {
					t.Fatalf("request ids: %v", test.service.asked)
				}
			}
		})
	}
}

func TestAnAnswerIsNoCut(t *testing.T) {
	client := connected(t, &cutting{})
	_, err := client.Chat.Ping(context.Background(), &chatpb.PingRequest{})
	if IsCut(err) || status.Code(err) != codes.Unimplemented {
		t.Fatal(err)
	}
	if !IsCut(status.Error(codes.Internal, "of a proxy")) || IsCut(status.Error(codes.NotFound, "no such session")) {
		t.Fatal("a cut is told from an answer by its code")
	}
}
