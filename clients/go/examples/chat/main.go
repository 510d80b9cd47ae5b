// Chat in a terminal: sends one message, prints the answer live, and survives a cut connection.
//
//	go run ./examples/chat 127.0.0.1:7400 "in parallel: count the files; find the 3 largest files"
//
// -session ID goes on with a session; -json prints a report as the last line. NETACLAW_API_KEY is shown where the gateway
// asks for one.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	netaclaw "netaclaw/client"
	"netaclaw/client/gen/chatpb"
)

func main() {
	session := flag.String("session", "", "go on with a session")
	report := flag.Bool("json", false, "print a report as the last line")
	flag.Parse()
	if flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: chat [-session ID] [-json] HOST:PORT MESSAGE")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	view, err := chat(ctx, flag.Arg(0), *session, strings.Join(flag.Args()[1:], " "))
	if err != nil {
		fmt.Fprintln(os.Stderr, "chat:", err)
		os.Exit(1)
	}
	fmt.Println()
	if *report {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
			"session_id": view.SessionID, "seq": view.Seq, "text": view.TextOf(view.LeafEntryID),
			"outcome": view.TurnEnd.GetDone().GetOutcome(),
		})
	}
	if view.TurnEnd.GetDone() == nil {
		os.Exit(1)
	}
}

func chat(ctx context.Context, address, session, message string) (*netaclaw.View, error) {
	client, err := netaclaw.Connect(address, netaclaw.Options{APIKey: os.Getenv("NETACLAW_API_KEY")})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	view := netaclaw.NewView()
	if session != "" {
		if view, err = client.Load(ctx, session); err != nil {
			return nil, err
		}
	}
	printer := printer{shown: map[string]string{}, states: map[string]string{}}
	for event, err := range client.RunTurn(ctx, &chatpb.ChatRequest{SessionId: session, Content: message}, view.Seq) {
		if err != nil {
			return nil, err
		}
		if _, err := view.Apply(event); err != nil {
			return nil, err
		}
		printer.print(view, event)
	}
	return view, ctx.Err()
}

// printer remembers how much of each answer, and what of each subagent, is on the screen.
type printer struct{ shown, states map[string]string }

func (p *printer) print(view *netaclaw.View, event *chatpb.ChatEvent) {
	for _, entry := range view.Path() {
		if entry.GetTurnId() != event.GetTurnId() || entry.GetAssistant() == nil {
			continue
		}
		before, text := p.shown[entry.GetEntryId()], view.TextOf(entry.GetEntryId())
		if rest, grown := strings.CutPrefix(text, before); grown {
			fmt.Print(rest)
		} else { // another attempt has begun
			fmt.Print("\n", text)
		}
		p.shown[entry.GetEntryId()] = text
	}
	if task := event.GetSubagentEvent().GetItem(); task != nil && p.states[task.GetTaskId()] != task.GetState().String() {
		p.states[task.GetTaskId()] = task.GetState().String()
		fmt.Fprintf(os.Stderr, "  [%s: %s]\n", task.GetName(), task.GetState())
	}
}
