"""Schedules: what runs by itself, where, when and under which conditions."""
