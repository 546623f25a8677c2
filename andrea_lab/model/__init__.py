"""The model as data: its configuration, the layout of its tensors, its memory plan and its list of launches."""
