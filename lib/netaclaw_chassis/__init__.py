"""What a process of this suite needs to live; no domain noun, three users for every module."""
