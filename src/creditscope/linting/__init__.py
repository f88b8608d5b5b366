"""A linter for the pitfalls of measuring credit: it reads people's code by its syntax tree and imports none of it.

`rules/` is a door: one file and one decorator add a rule. `source.py` is a parsed file, `expressions.py`,
`gradients.py` and `cosines.py` recognise what rules look for, `lint.py` runs all rules over paths, and `formats.py`
writes the findings. Everything is standard library, so that `__main__.py` and the pre-commit hook install nothing.
"""
