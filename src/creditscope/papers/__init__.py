"""The engine that sets published figures beside our own runs; a paper declares itself as a `Paper` record."""
