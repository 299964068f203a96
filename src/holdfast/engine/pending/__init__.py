"""What changed since the last snapshot: written, folded into maps, and let go of if damaged."""
