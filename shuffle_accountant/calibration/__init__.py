"""Calibration: the parameter that meets a privacy target, with evidence."""
