"""Agents on other machines: enrolment, their runtime API, and the jobs that they execute."""
