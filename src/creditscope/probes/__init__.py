"""Questions that need the network itself: what `auditing` asks about credit, one file per question."""
