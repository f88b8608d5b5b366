"""Charts: Altair definitions, the rows of numbers that fill them, and files for a paper."""
