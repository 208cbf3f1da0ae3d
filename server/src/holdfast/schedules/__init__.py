"""Schedules: what runs automatically, where, when and under which conditions."""
