"""The kill campaign: processes killed at random instants, and everything that was promised about it looked at after."""
