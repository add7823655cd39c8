"""Results for people: text on standard output."""
