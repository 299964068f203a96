"""Values that the layers hand each other, by topic. Nothing here does anything."""
