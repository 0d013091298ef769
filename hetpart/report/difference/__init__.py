"""Two plans side by side, in every format that is written."""
