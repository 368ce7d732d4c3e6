"""Runs requests: packs tokens of several sequences into steps, samples, and stops.

Knows models and caches; knows neither text nor HTTP.
"""
