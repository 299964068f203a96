"""The files plane: read, listed, written."""
