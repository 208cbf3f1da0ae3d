"""The kill campaign: kills processes at random instants, then checks everything that Holdfast promises."""
