"""Common patterns for users who do not want to write cron expressions."""

from holdfast.schedules.answer_schemas import Preset

PRESETS = [
    Preset(name="Hourly", expression="0 * * * *", description="Every hour, on the hour"),
    Preset(name="Every 6 hours", expression="0 */6 * * *", description="At 00:00, 06:00, 12:00 and 18:00"),
    Preset(name="Nightly", expression="0 2 * * *", description="Every night at 02:00"),
    Preset(name="Twice a day", expression="0 2,14 * * *", description="Every day at 02:00 and 14:00"),
    Preset(name="Workdays", expression="0 20 * * 1-5", description="Monday to Friday at 20:00"),
    Preset(name="Weekends", expression="0 6 * * 0,6", description="Saturday and Sunday at 06:00"),
    Preset(name="Weekly", expression="0 3 * * 0", description="Sundays at 03:00"),
    Preset(name="Monthly", expression="0 4 1 * *", description="On the 1st of each month at 04:00"),
    Preset(name="End of month", expression="0 22 L * *", description="On the last day of each month at 22:00"),
]
