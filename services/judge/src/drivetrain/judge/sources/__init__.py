"""The judge's signal sources, one a file, behind `base.Source`."""
