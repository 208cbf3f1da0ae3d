"""When schedules are due: pure functions of a calendar and an instant. Nothing here reads a clock or the store."""
