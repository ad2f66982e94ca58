"""Losses made of others: products, mixtures, dilution, sampling."""
