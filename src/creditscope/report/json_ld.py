"""The claim card as JSON-LD, for search engines and catalogues: a ClaimReview of schema.org."""

from __future__ import annotations

import math
from typing import Any

from creditscope.records.report import Report
from creditscope.report.claim_card import claim_card
from creditscope.report.headline import headline
from creditscope.verdict import Finding

RATINGS = {"fail": 1, "inconclusive": 2, "pass": 3}  # of 3; a control is not rated


def claim_review(report: Report) -> dict[str, Any]:
    """What was claimed, how it was rated, the numbers behind it, and the hash of the report."""
    claim, origin = claim_card(report), report.provenance
    review: dict[str, Any] = {
        "@context": "https://schema.org",
        "@type": "ClaimReview",
        "name": f"Audit of {claim.name}",
        "claimReviewed": f"{claim.name}: {claim.claimed}",
        "reviewBody": headline(report),
        "identifier": {"@type": "PropertyValue", "propertyID": "sha256", "value": report.content_hash},
        "isBasedOn": [
            {"@type": "SoftwareApplication", "name": "creditscope", "softwareVersion": origin.creditscope},
            {
                "@type": "Dataset",
                "name": f"Diagnostics of {claim.name} on {origin.images:,} images, protocol {report.protocol}",
                "variableMeasured": [
                    _variable(code, finding) for code, finding in report.findings.items() if finding.value is not None
                ],
            },
        ],
    }
    if report.verdict.outcome in RATINGS:
        review["reviewRating"] = {
            "@type": "Rating",
            "ratingValue": RATINGS[report.verdict.outcome],
            "worstRating": 1,
            "bestRating": 3,
            "alternateName": report.verdict.text,
        }
    return review | ({"datePublished": origin.created} if origin.created else {})


def _variable(code: str, finding: Finding) -> dict[str, Any]:
    value = finding.value if finding.value is not None and math.isfinite(finding.value) else str(finding.value)
    description = f"{finding.status.value}; fires {finding.limit.fires} {finding.limit.text}"
    named = {"@type": "PropertyValue", "name": f"{code} {finding.title}"}
    return {**named, "value": value, "description": description}
