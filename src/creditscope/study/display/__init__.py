"""What a study shows in the terminal: live progress and tables."""
