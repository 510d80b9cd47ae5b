"""The command line: runs the suite, chats, shows a demonstration, says what is missing."""
