"""Losses of a central mechanism's steps, dealt to the steps of an epoch at random."""
