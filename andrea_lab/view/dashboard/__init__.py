"""The page that shows a folder of runs while they train: served on this machine, or saved as one file."""
