"""Messages to users and programs: rules, incidents, deliveries, reports."""
