"""partwise: structured prediction trained in the dual, with a certificate.

Names load on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partwise.core.losses import Loss
    from partwise.errors import InputError
    from partwise.estimators.on_disk.dataset import EncodedDataset, open_dataset
    from partwise.estimators.regularization_path.path import RegularizationPath
    from partwise.solvers.dual.simplex_convex import simplex_convex
