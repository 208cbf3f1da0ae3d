"""Messages to people and programs: rules, incidents, deliveries, reports."""
