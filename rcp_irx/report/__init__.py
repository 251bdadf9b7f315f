"""A report that people can read: one HTML file, which works from disk and loads nothing."""

from rcp_irx.report.content import gather
from rcp_irx.report.page import render

__all__ = ["gather", "render"]
