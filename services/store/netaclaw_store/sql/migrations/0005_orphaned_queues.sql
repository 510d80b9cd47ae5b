-- Messages that wait are looked for in all sessions: their owner may have died between two turns.
CREATE INDEX queued_message_waiting ON queued_message (session_id) WHERE taken_turn_id = '';
