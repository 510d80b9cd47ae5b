package netaclaw

import (
	"fmt"
	"strings"

	"netaclaw/client/gen/chatpb"
	"netaclaw/client/gen/sessionpb"
)

// Gap is a durable event that came too early: watch again from Last.
type Gap struct{ Last, Seq int64 }

func (g *Gap) Error() string { return fmt.Sprintf("event %d does not follow event %d", g.Seq, g.Last) }

// View is one session as a client sees it: the entries with their text, what is being written, and subagents' states.
// Not safe for use by several goroutines at once.
type View struct {
	SessionID string
	// Seq is that of the last durable event that is included.
	Seq         int64
	LeafEntryID string
	// Entries by id. An entry's parts are as its last event carried them.
	Entries map[string]*sessionpb.Entry
	// Tasks are the subagents, by task id, as their last event carried them.
	Tasks map[string]*sessionpb.SubagentTask
	// TurnEnd is the last `done` or `error` event.
	TurnEnd *chatpb.ChatEvent

	drafts map[string]*draft
}

type draft struct {
	attempt int32
	text    []byte
}

// NewView is a view of a session without events.
func NewView() *View {
	return &View{
		Entries: map[string]*sessionpb.Entry{},
		Tasks:   map[string]*sessionpb.SubagentTask{},
		drafts:  map[string]*draft{},
	}
}

func (v *View) add(page *sessionpb.GetSessionTreeResponse) {
	if v.SessionID == "" {
		v.SessionID = page.GetSession().GetSessionId()
		v.Seq = page.GetSession().GetSeq()
		v.LeafEntryID = page.GetSession().GetLeafEntryId()
	}
	for _, entry := range page.GetEntries() {
		v.Entries[entry.GetEntryId()] = entry
	}
}

// Apply takes one event and says whether it was new. Durable events at or before Seq are ignored; one that leaves a hole
// is a *Gap and changes nothing.
func (v *View) Apply(event *chatpb.ChatEvent) (bool, error) {
	if seq := event.GetSeq(); seq != 0 {
		if seq <= v.Seq {
			return false, nil
		}
		if seq != v.Seq+1 {
			return false, &Gap{Last: v.Seq, Seq: seq}
		}
		v.Seq = seq
	}
	if v.SessionID == "" {
		v.SessionID = event.GetSessionId()
	}
	v.change(event) // kinds of a later version count, and change nothing
	return true, nil
}

func (v *View) change(event *chatpb.ChatEvent) {
	switch kind := event.GetEvent().(type) {
	case *chatpb.ChatEvent_SessionEntryAdded:
		v.put(event, kind.SessionEntryAdded.GetEntry())
	case *chatpb.ChatEvent_SessionEntryUpdated:
		v.put(event, kind.SessionEntryUpdated.GetEntry())
	case *chatpb.ChatEvent_SessionEntryRemoved:
		delete(v.Entries, kind.SessionEntryRemoved.GetEntryId())
		delete(v.drafts, kind.SessionEntryRemoved.GetEntryId())
	case *chatpb.ChatEvent_SessionLeafChanged:
		v.LeafEntryID = kind.SessionLeafChanged.GetLeafEntryId()
	case *chatpb.ChatEvent_SubagentEvent:
		item := kind.SubagentEvent.GetItem()
		v.Tasks[item.GetTaskId()] = item
	case *chatpb.ChatEvent_AssistantStreamStart:
		if event.GetTaskId() == "" {
			start := kind.AssistantStreamStart
			v.drafts[event.GetEntryId()] = &draft{attempt: start.GetAttempt(), text: []byte(start.GetText())}
		}
	case *chatpb.ChatEvent_AssistantStreamDelta:
		if event.GetTaskId() == "" {
			v.drafts[event.GetEntryId()].add(kind.AssistantStreamDelta)
		}
	case *chatpb.ChatEvent_Done, *chatpb.ChatEvent_Error:
		v.TurnEnd = event
		clear(v.drafts)
	}
}

// put replaces an entry, unless what is here is newer.
func (v *View) put(event *chatpb.ChatEvent, entry *sessionpb.Entry) {
	if known := v.Entries[entry.GetEntryId()]; known.GetUpdatedSeq() > max(entry.GetUpdatedSeq(), event.GetSeq()) {
		return
	}
	v.Entries[entry.GetEntryId()] = entry
	if entry.GetState() != sessionpb.EntryState_ENTRY_STATE_STREAMING {
		delete(v.drafts, entry.GetEntryId())
	}
}

// add takes a delta where its offset says. What is known is ignored, and so are deltas of another attempt and those that
// would leave a hole: the next start, or the final entry, brings the whole.
func (d *draft) add(delta *chatpb.AssistantStreamDelta) {
	if d == nil || delta.GetAttempt() != d.attempt || delta.GetChannel() != chatpb.StreamChannel_STREAM_CHANNEL_TEXT {
		return
	}
	known := int64(len(d.text)) - delta.GetOffset()
	if text := delta.GetText(); known >= 0 && known < int64(len(text)) {
		d.text = append(d.text, text[known:]...)
	}
}

// TextOf is an assistant entry's text as it stands: what is being written, else the stored parts.
func (v *View) TextOf(entryID string) string {
	if draft := v.drafts[entryID]; draft != nil {
		return string(draft.text)
	}
	var text strings.Builder
	for _, part := range v.Entries[entryID].GetAssistant().GetParts() {
		text.WriteString(part.GetText().GetText())
	}
	return text.String()
}

// Path lists the entries from the root to the leaf.
func (v *View) Path() []*sessionpb.Entry {
	var path []*sessionpb.Entry
	for entry := v.Entries[v.LeafEntryID]; entry != nil; entry = v.Entries[entry.GetParentEntryId()] {
		path = append([]*sessionpb.Entry{entry}, path...)
	}
	return path
}
