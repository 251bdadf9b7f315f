"""PyTerrier: RRFPool makes a pool of candidates, RCPJudge judges it, GainArtifact opens saved gains.

Nothing else imports this.
"""

from rcp_irx.errors import MissingExtra

try:
    import pyterrier  # noqa: F401
except ImportError as error:
    raise MissingExtra("pyterrier", "pyterrier") from error

from rcp_irx.pyterrier.artifact import GainArtifact
from rcp_irx.pyterrier.judge import RCPJudge
from rcp_irx.pyterrier.pool import RRFPool

__all__ = ["GainArtifact", "RCPJudge", "RRFPool"]
