"""Measurements of many annotators who label at the same time: ``closecall bench team``."""
