"""What a group costs: bytes, operations, time."""
