"""What is erased for good: a namespace, a session, or all that is known of a user."""
