"""Real directories: the only code that touches a user's directory."""
