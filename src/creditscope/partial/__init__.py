"""Partial audits: what the logs of runs without weights still show, each diagnostic exact, bounded, open or missing.

`partial_audit` judges logs, `read_logs` reads them from files, `log_of` writes the history of one of our own runs as
such a log.
"""

from creditscope.partial.auditing import PartialAudit, partial_audit
from creditscope.partial.logs import log_of, read_logs
from creditscope.partial.readings import Coverage, LogFinding

__all__ = ["Coverage", "LogFinding", "PartialAudit", "log_of", "partial_audit", "read_logs"]
