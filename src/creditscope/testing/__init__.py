"""Audits as tests: `assert_audit` fails a test whose network does not pass; the pytest plugin keeps the page."""

from __future__ import annotations

from creditscope.testing.assertion import AuditFailed, assert_audit

__all__ = ["AuditFailed", "assert_audit"]
