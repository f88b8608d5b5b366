"""Audits as text, pages, tables, charts and forms, made from the JSON records alone; nothing here computes a result."""
