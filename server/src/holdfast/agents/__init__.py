"""Agents on other machines: enrolment, their runtime API, and the jobs they execute."""
