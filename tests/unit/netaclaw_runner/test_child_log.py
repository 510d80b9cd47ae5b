"""What a worker says beside its protocol."""

from __future__ import annotations

from netaclaw_runner.child_log import ChildLog


def test_the_log_keeps_the_last_bytes_only() -> None:
    log = ChildLog(100)
    for number in range(100):
        log.stderr(b"%03d\n" % number)

    assert log.text.splitlines()[-1] == "099"
    assert len(log.text) == 100
    assert log.stderr_bytes == 400


def test_one_piece_above_the_cap_leaves_its_end() -> None:
    log = ChildLog(10)
    log.stderr(b"x" * 50 + b"end")

    assert log.text == "xxxxxxxend"


def test_diagnostics_count_and_say_no_content_unless_the_worker_broke() -> None:
    log = ChildLog(1000)
    log.noise(b"secret progress bar", "not a JSON object")
    log.noise(b"secret", "not a JSON object")
    log.stderr(b"Traceback\nValueError: boom\n")
    log.note("a strange line")
    log.note("a strange line")

    plain = log.diagnostics()

    assert plain == ["a strange line (2 times)", "2 noise lines: 2 × not a JSON object", "27 bytes on stderr"]
    assert "ValueError: boom" in log.diagnostics(with_tail=True)[-1]


def test_notes_are_bounded() -> None:
    log = ChildLog(1000)
    for number in range(1000):
        log.note(f"fact {number}")

    assert len(log.diagnostics()) == 32
