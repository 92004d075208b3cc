"""Tokens and certificates of an installation, made and renewed by the product itself."""
