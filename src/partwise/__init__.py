"""partwise: structured prediction trained in the dual, with a certificate."""
