"""What the history bench is made of: archives made up at scale, and a real repository."""
