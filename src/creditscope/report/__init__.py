"""A report turned into something to look at.  Nothing here computes a result: the JSON records are all it knows."""
