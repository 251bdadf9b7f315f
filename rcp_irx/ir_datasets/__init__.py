"""Gains in ir_datasets, and so in PyTerrier; importing it registers the demo collection `rcp-irx/demo`.

    >>> import ir_datasets, rcp_irx.ir_datasets
    >>> ir_datasets.load("rcp-irx/demo").docs_count()
    165

`register` makes gains a dataset, `register_released` those of a released suite; `pool_from` makes a pool to judge. The
demo collection itself is in rcp_irx.demo.
"""

from __future__ import annotations

from rcp_irx.errors import MissingExtra

try:
    import ir_datasets  # noqa: F401  (the modules below need it)
except ModuleNotFoundError as error:
    if error.name != "ir_datasets":
        raise
    raise MissingExtra("ir_datasets", "ir_datasets") from error

from rcp_irx.ir_datasets.demo import register_demo
from rcp_irx.ir_datasets.pool import pool_from
from rcp_irx.ir_datasets.registered import register
from rcp_irx.ir_datasets.released import register_released

__all__ = ["pool_from", "register", "register_released"]

register_demo()
