"""Rounds through a whole vault: giving bytes back, looking for damage, mending it."""
